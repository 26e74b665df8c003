//! A redis-server on the loopback interface, if one is installed, through the crate `redis`.

use std::cell::RefCell;
use std::env;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use redis::Connection;

use crate::load::Step;
use crate::measure::now;
use crate::stores::Batches;
use crate::stores::Client;
use crate::stores::Kept;
use crate::stores::Store;

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(10);

/// A server that ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Server {
    /// Starts a server that saves nothing, on a port that was free just before.
    ///
    /// # Errors
    /// What the system says: mostly that there is no such program.
    pub fn start() -> io::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let folder = env::temp_dir().join(format!("peers-redis-{}", process::id()));
        fs::create_dir_all(&folder)?;
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .arg("--dir")
            .arg(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child, folder, port })
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// It does not answer in time.
    pub fn version(&self) -> redis::RedisResult<String> {
        let start = now();
        let mut connection = loop {
            match self.connect() {
                Ok(connection) => break connection,
                Err(error) if now() - start > START_MAX => return Err(error),
                Err(_) => std::thread::yield_now(),
            }
        };
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection)?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("?").to_owned())
    }

    fn connect(&self) -> redis::RedisResult<Connection> {
        redis::Client::open(format!("redis://127.0.0.1:{}/", self.port))?.get_connection()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has ended by itself cannot be ended again, and its folder may stay.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// The keys of a server.
#[derive(Debug)]
pub struct Redis<'s>(pub &'s Server);

/// A connection. Batches are pipelines: the commands of a batch travel together.
pub struct Wire(RefCell<Connection>);

/// The bytes of an answer.
pub struct Reply(Vec<u8>);

impl Kept for Reply {
    fn holds(&self, written: &[u8]) -> bool {
        (*self.0).holds(written)
    }
}

impl Store for Redis<'_> {
    type Client<'c>
        = Wire
    where
        Self: 'c;

    fn client(&self) -> Wire {
        Wire(RefCell::new(self.0.connect().expect("the server answers")))
    }
}

impl Wire {
    fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        command.query(&mut *self.0.borrow_mut()).expect("the server answers")
    }
}

impl Client for Wire {
    type Kept = Reply;

    fn get(&self, key: &[u8]) -> Option<Reply> {
        self.ask::<Option<Vec<u8>>>(redis::cmd("GET").arg(key)).map(Reply)
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.ask::<()>(redis::cmd("SET").arg(key).arg(value));
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.ask(redis::cmd("DEL").arg(key))
    }

    fn modify(&self, key: &[u8]) -> bool {
        self.ask::<usize>(redis::cmd("APPEND").arg(key).arg(b"+")) > 0
    }
}

impl Batches for Wire {
    fn get_many(&self, steps: &[Step]) -> Vec<Option<Reply>> {
        let mut pipeline = redis::pipe();
        for step in steps {
            pipeline.cmd("GET").arg(step.key());
        }
        let replies = pipeline.query::<Vec<Option<Vec<u8>>>>(&mut *self.0.borrow_mut());
        replies.expect("the server answers").into_iter().map(|one| one.map(Reply)).collect()
    }

    fn set_many(&self, steps: &[Step]) {
        let mut pipeline = redis::pipe();
        for step in steps {
            pipeline.cmd("SET").arg(step.key()).arg(step.value()).ignore();
        }
        pipeline.exec(&mut *self.0.borrow_mut()).expect("the server answers");
    }
}
