//! The protocol of moves, searched exhaustively: what holds, and what each earlier wording broke.

mod planted;
mod report;
mod sound;
