//! The contest: every contender on every trace, at every size of the cache.

use crate::cache::contender::Contender;
use crate::cache::contender::HitRatio;
use crate::cache::contender::Role;
use crate::cache::contender::play;
use crate::cache::trace::Room;
use crate::cache::trace::SHARES;
use crate::cache::trace::Trace;
use crate::random::SEED;

/// A percentage for each size of the cache.
pub type Sizes = [f64; SHARES.len()];

/// What came out, a row for each trace.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The columns: who took part.
    pub contenders: Vec<(&'static str, Role)>,
    /// The traces.
    pub rows: Vec<Row>,
}

/// The figures of one trace.
#[derive(Clone, Debug)]
pub struct Row {
    /// What the trace is called.
    pub name: String,
    /// How long it is.
    pub note: String,
    /// Whether the row belongs to the mean over all traces: each trace does so once, by objects.
    pub is_in_mean: bool,
    /// By contender, in the order of the columns.
    pub figures: Vec<Sizes>,
}

impl Row {
    /// The mean over the sizes, by contender.
    pub fn means(&self) -> Vec<f64> {
        self.figures.iter().map(|sizes| mean(sizes.iter().copied())).collect()
    }
}

impl Outcome {
    /// The mean over the traces, by contender, of what `figures` says of each.
    pub fn means_of(&self, figures: impl Fn(&Row) -> Vec<f64>) -> Vec<f64> {
        let rows: Vec<_> = self.rows.iter().filter(|row| row.is_in_mean).map(figures).collect();
        let column = |at: usize| mean(rows.iter().map(|row| row[at]));
        (0..self.contenders.len()).map(column).collect()
    }
}

/// The rows of a trace: the ratio of objects, and of bytes where entries have weights.
pub fn rows(trace: &Trace, contenders: &[Contender], seeds: u64) -> Vec<Row> {
    let ratios: Vec<_> = contenders.iter().map(|one| all_sizes(trace, one, seeds)).collect();
    let row = |name, note, is_in_mean, figure: fn(&HitRatio) -> f64| Row {
        name,
        note,
        is_in_mean,
        figures: ratios.iter().map(|sizes| sizes.each_ref().map(figure)).collect(),
    };
    let name = trace.name();
    let note = format!("{} accesses of {} keys", trace.len(), trace.distinct());
    let mut rows = vec![row(name.to_owned(), note, true, |ratio| ratio.objects)];
    if trace.is_weighted() {
        let note = "the same by bytes".to_owned();
        rows.push(row(format!("{name}, bytes"), note, false, |ratio| ratio.bytes));
    }
    rows
}

fn all_sizes(trace: &Trace, contender: &Contender, seeds: u64) -> [HitRatio; SHARES.len()] {
    let seeds = if contender.is_seeded { seeds } else { 1 };
    SHARES.map(|percent| averaged(trace, contender, trace.room(percent), seeds))
}

fn averaged(trace: &Trace, contender: &Contender, room: Room, seeds: u64) -> HitRatio {
    let ratios = (0..seeds).map(|seed| {
        let mut cache = (contender.fresh)(trace, room, SEED + seed);
        play(trace, &mut *cache)
    });
    let ratios: Vec<_> = ratios.collect();
    let mean_of = |figure: fn(&HitRatio) -> f64| mean(ratios.iter().map(figure));
    HitRatio { objects: mean_of(|ratio| ratio.objects), bytes: mean_of(|ratio| ratio.bytes) }
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), figure| (sum + figure, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::contender::Cache;
    use crate::cache::trace::Access;
    use crate::cache::trace::Recorder;

    /// Hits if the seed is odd.
    struct Coin(u64);

    impl Cache for Coin {
        fn access(&mut self, _: Access<'_>) -> bool {
            self.0 % 2 == 1
        }
    }

    fn coin(is_seeded: bool) -> Contender {
        let fresh = |_: &Trace, _, seed| Box::new(Coin(seed)) as Box<dyn Cache>;
        Contender { name: "coin", role: Role::Rival, is_seeded, fresh }
    }

    #[test]
    fn who_is_seeded_is_averaged_over_the_seeds() {
        let mut recorder = Recorder::new("a test");
        recorder.weighted_access("a", 5);
        let rows = rows(&recorder.finish(), &[coin(true), coin(false)], 4);
        let once = if SEED % 2 == 1 { 100.0 } else { 0.0 };
        for row in &rows {
            assert_eq!(row.means(), [50.0, once], "{}", row.name);
        }
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn bytes_are_no_part_of_the_mean() {
        let row = |is_in_mean, figure| Row {
            name: String::new(),
            note: String::new(),
            is_in_mean,
            figures: vec![[figure; 4]],
        };
        let rows = vec![row(true, 10.0), row(false, 99.0), row(true, 30.0)];
        let outcome = Outcome { contenders: vec![("one", Role::Rival)], rows };
        assert_eq!(outcome.means_of(Row::means), [20.0]);
    }
}
