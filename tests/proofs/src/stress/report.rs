//! `Report`: the figures that make a run a test.

macro_rules! report {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened in a run, or in several.
        #[derive(Clone, Copy, Debug, Default)]
        #[expect(missing_docs, reason = "the names say what is counted; the rest is said")]
        pub struct Report {
            /// Most events of one history under way at a time.
            pub overlap_max: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Report {
            /// Adds what one thread or another run counted.
            pub fn add(&mut self, other: &Self) {
                self.overlap_max = self.overlap_max.max(other.overlap_max);
                $(self.$name += other.$name;)*
            }
        }
    };
}

report! {
    calls,
    /// Calls whose hops nobody noted, so that they could be served at once.
    untraced,
    /// Events in the histories: a call on several keys has several.
    events,
    /// Events that began before another one of their history had ended.
    overlapping,
    asks,
    moved,
    /// Calls that carried ASKING and were answered MOVED: their move had ended meanwhile.
    late_asks,
    /// Calls whose keys were pulled to the target of a move.
    pulls,
    /// Calls that had keys pulled back from the target of an abort.
    pulls_back,
    /// Calls that the source served while the target held keys too.
    split_at_source,
    /// Calls that the target served before the flip.
    split_at_target,
    /// Classic moves that were completed.
    flips,
    aborts,
    /// Aborts that had keys to bring back.
    aborts_split,
    /// Slots that changed hands in one hold, each by itself.
    handovers,
    /// Those of them that completed a move which was open.
    handovers_of_open,
    /// Slots that changed hands in sets.
    set_flips,
    /// Sets of which every slot has flipped.
    sets_committed,
    /// Sets of which every reservation was released.
    sets_released,
    drivers_dropped,
    /// Moves and sets that another driver went on with.
    taken_over,
    /// Repairs of whatever was open at the time, beside the drivers at work.
    repairs,
    /// Messages between nodes that were delivered late, and out of order.
    messages_late,
    messages_dropped,
    /// Steps that waited for a call in the gate.
    busy_steps,
    refused_steps,
    /// Events at whose instant the clock stood on a deadline of their key.
    at_deadline,
    /// Events during which the clock came to a deadline of their key.
    across_deadline,
    /// Values of bounded nodes that certainly were evicted; only some of all that were.
    vanished,
    /// Configurations that the checker visited.
    configurations,
}

impl Report {
    /// Slots that changed their owner, and moves that were undone.
    pub fn moves(&self) -> u64 {
        // A classic move that a handover completed may be among the flips already.
        self.flips + self.aborts + self.handovers - self.handovers_of_open + self.set_flips
    }

    /// What went wrong on purpose. Waits at a gate are not among them: one race makes many.
    pub fn faults(&self) -> u64 {
        let drivers = self.drivers_dropped + self.taken_over + self.repairs;
        let turned = self.aborts + self.sets_released;
        drivers + turned + self.messages_late + self.messages_dropped
    }
}
