//! The floors of the library, as data: a room imports only from floors below its own.
//!
//! When a room is added, it gets its place here in the same change. Where a wall must move, the reason goes into
//! `docs/ARCHITECTURE.md`.

/// Where the library's rooms are.
pub(super) const SOURCE: &str = "crates/switchboard/src";

/// The rooms of one floor.
pub(super) struct Floor {
    /// Modules below the root. A module may stand on another floor than the room around it.
    pub(super) rooms: &'static [&'static str],
    /// Whether the rooms of this floor may know one another. Only the two lowest floors are small enough for that:
    /// an id that does not parse is an error, and an error names the server by its id.
    pub(super) neighbours: bool,
}

const fn floor(rooms: &'static [&'static str]) -> Floor {
    Floor { rooms, neighbours: false }
}

/// From the ground up.
pub(super) const FLOORS: [Floor; 10] = [
    // Raw JSON lies below the wire: errors carry the server's own data as it came.
    Floor { rooms: &["id", "error", "secret", "time", "tasks", "wire::json"], neighbours: true },
    Floor { rooms: &["spec", "status", "event", "backoff"], neighbours: true },
    floor(&["wire"]),
    floor(&["catalogue", "questions", "store"]),
    floor(&["transport"]),
    floor(&["auth"]),
    floor(&["session"]),
    floor(&["connection"]),
    floor(&["manager"]),
    floor(&["generate", "pool", "client"]),
];

/// The room that a module belongs to, and its floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) room: &'static str,
    pub(super) floor: usize,
}

impl Place {
    /// The place of a module, by the longest room name that its path begins with.
    pub(super) fn of(module: &[String]) -> Option<Self> {
        let path = module.join("::");
        let holds = |room: &str| path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        FLOORS
            .iter()
            .enumerate()
            .flat_map(|(floor, row)| row.rooms.iter().map(move |room| Self { room, floor }))
            .filter(|place| holds(place.room))
            .max_by_key(|place| place.room.len())
    }

    /// Whether code here may import from `other`.
    pub(super) fn may_import(self, other: Self) -> bool {
        self.room == other.room
            || other.floor < self.floor
            || (other.floor == self.floor && FLOORS[self.floor].neighbours)
    }
}
