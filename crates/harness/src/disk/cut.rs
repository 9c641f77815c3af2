//! What a power cut leaves on the fake disk.
//!
//! - All choices come from the seed and the order of names, nothing else.
//! - Content and entries are chosen apart, so that renamed files without their content occur.
//! - A rename between two folders survives in both or in neither.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use fastrand::Rng;

use super::content::{ContentChange, DiskFileContent, Size, Survival};
use super::folder::{DiskFolder, FolderEntries, Inode};
use super::tree::{NodeBody, ROOT, RenameEnd, Tree};

/// The disk after a power cut, all of it durable, under new inode numbers.
pub(super) fn power_cut(mut tree: Tree, seed: u64) -> Tree {
    // The kernel reports late that a handle is closed, so handles must not matter.
    tree.close_all();
    let mut rng = Rng::with_seed(seed);
    let history = UnsyncedHistory::of(&tree);
    let style = SurvivalStyle::choose(&mut rng, &history, true);
    settle_entries(&mut tree, &mut rng, &history);
    let mut image = Image {
        after: Tree::empty(Some(&tree)),
        before: tree,
        visited: HashSet::new(),
        rng,
        history,
        style,
    };
    image.fill(ROOT, ROOT);
    image.after
}

/// Operations that no sync has made durable.
struct UnsyncedHistory {
    /// All of them, in order.
    operations: Vec<u64>,
    /// Writes of more than one block.
    wide: Vec<ContentChange>,
}

/// How the blocks of files survive.
#[derive(Clone, Copy)]
enum SurvivalStyle {
    /// Everything reached the disk.
    All,
    /// Nothing reached the disk.
    None,
    /// Each block with this probability.
    Each(f64),
    /// What was written before this moment.
    Prefix(u64),
    /// Only blocks written from this moment on: the disk reordered.
    Last(u64),
    /// What was written before this write, and some of its blocks.
    Torn(ContentChange, Tear),
    /// Each file in a style of its own.
    Mixed,
}

/// Which blocks of a torn write survive.
#[derive(Clone, Copy)]
enum Tear {
    Before(usize),
    From(usize),
    Some,
}

/// The tree after the cut, while it is built from the tree before it.
struct Image {
    before: Tree,
    after: Tree,
    visited: HashSet<Inode>,
    rng: Rng,
    history: UnsyncedHistory,
    style: SurvivalStyle,
}

impl UnsyncedHistory {
    fn of(tree: &Tree) -> UnsyncedHistory {
        let mut operations = Vec::new();
        let mut wide: Vec<ContentChange> = Vec::new();
        for inode in tree.inodes() {
            if let Ok(file) = tree.file(inode) {
                operations.extend(file.changes().iter().map(|change| change.operation));
                wide.extend(file.changes().iter().filter(|change| change.blocks > 1));
            }
            if let Ok(folder) = tree.folder(inode) {
                operations.extend(folder.pending().iter().map(|pending| pending.operation));
            }
        }
        operations.sort_unstable();
        wide.sort_unstable_by_key(|change| change.operation);
        UnsyncedHistory { operations, wide }
    }

    /// A moment before any of the operations or after all of them.
    fn moment(&self, rng: &mut Rng) -> u64 {
        let position = rng.usize(..=self.operations.len());
        self.operations.get(position).copied().unwrap_or(u64::MAX)
    }

    /// A moment before one of the last few operations.
    fn late_moment(&self, rng: &mut Rng) -> u64 {
        let back = rng.usize(1..=8).min(self.operations.len());
        let position = self.operations.len() - back;
        self.operations.get(position).copied().unwrap_or(u64::MAX)
    }
}

impl SurvivalStyle {
    fn choose(rng: &mut Rng, history: &UnsyncedHistory, mixed: bool) -> SurvivalStyle {
        match rng.u8(..if mixed { 14 } else { 12 }) {
            0 => SurvivalStyle::All,
            1 => SurvivalStyle::None,
            2..=4 => SurvivalStyle::Each(probability(rng)),
            5..=7 => SurvivalStyle::Prefix(history.moment(rng)),
            8..=9 => SurvivalStyle::Last(history.late_moment(rng)),
            10..=11 => SurvivalStyle::choose_torn(rng, history),
            _ => SurvivalStyle::Mixed,
        }
    }

    /// The moment to which a block returns that was last changed at the end of the range.
    fn moment(self, block: usize, changed: RangeInclusive<u64>, rng: &mut Rng) -> u64 {
        match self {
            SurvivalStyle::All => u64::MAX,
            SurvivalStyle::None | SurvivalStyle::Mixed => 0,
            SurvivalStyle::Each(probability) if rng.f64() < probability => u64::MAX,
            SurvivalStyle::Each(_) if rng.u8(..4) == 0 => rng.u64(changed),
            SurvivalStyle::Each(_) => 0,
            SurvivalStyle::Prefix(moment) => moment,
            SurvivalStyle::Last(moment) if *changed.end() >= moment => u64::MAX,
            SurvivalStyle::Last(_) => 0,
            SurvivalStyle::Torn(change, tear) => {
                change.operation + u64::from(tear.keeps(change, block, rng))
            }
        }
    }

    fn choose_torn(rng: &mut Rng, history: &UnsyncedHistory) -> SurvivalStyle {
        let Some(last) = history.wide.last() else {
            return SurvivalStyle::Each(probability(rng));
        };
        let change = *if rng.bool() {
            last
        } else {
            rng.choice(&history.wide).unwrap_or(last)
        };
        let split = change.first_block + rng.usize(1..change.blocks);
        let tear = match rng.u8(..3) {
            0 => Tear::Before(split),
            1 => Tear::From(split),
            _ => Tear::Some,
        };
        SurvivalStyle::Torn(change, tear)
    }
}

impl Image {
    /// Moves what survives of a folder into an empty one.
    fn fill(&mut self, source: Inode, target: Inode) {
        self.visited.insert(source);
        let Some(NodeBody::Folder(folder)) = self.before.take(source).map(|node| node.body) else {
            return;
        };
        let mut entries = FolderEntries::new();
        for (name, child) in folder.into_durable() {
            let place = RenameEnd {
                folder: target,
                name: &name,
            };
            if let Some(moved) = self.child(child, place) {
                entries.insert(name, moved);
            }
        }
        if let Ok(folder) = self.after.folder_mut(target) {
            *folder = DiskFolder::durable(entries);
        }
    }

    fn child(&mut self, inode: Inode, place: RenameEnd<'_>) -> Option<Inode> {
        let mode = self.before.node(inode).ok()?.mode;
        if self.before.folder(inode).is_ok() {
            if self.visited.contains(&inode) {
                return None;
            }
            let moved = self
                .after
                .add(mode, NodeBody::Folder(DiskFolder::default()), place);
            self.fill(inode, moved);
            return Some(moved);
        }
        let content = std::mem::take(self.before.file_mut(inode).ok()?);
        let bytes = self.file(content);
        let body = NodeBody::File(DiskFileContent::durable(bytes));
        Some(self.after.add(mode, body, place))
    }

    fn file(&mut self, content: DiskFileContent) -> Vec<u8> {
        let style = match self.style {
            SurvivalStyle::Mixed => SurvivalStyle::choose(&mut self.rng, &self.history, false),
            style => style,
        };
        survive(content, style, &mut self.rng)
    }
}

/// Chooses for each folder which prefix of its operations survives.
fn settle_entries(tree: &mut Tree, rng: &mut Rng, history: &UnsyncedHistory) {
    let style = rng.u8(..6);
    let common = history.moment(rng);
    let mut moments = HashMap::new();
    for inode in tree.inodes() {
        let Ok(folder) = tree.folder(inode) else {
            continue;
        };
        let own = rng.usize(..=folder.pending().len());
        let own = folder.pending().get(own);
        let moment = match style {
            0 => u64::MAX,
            1 => 0,
            2 => common,
            _ => own.map_or(u64::MAX, |pending| pending.operation),
        };
        moments.insert(inode, moment);
    }
    while let Some((inode, moment)) = first_half_rename(tree, &moments) {
        moments.insert(inode, moment);
    }
    for (inode, moment) in moments {
        if let Ok(folder) = tree.folder_mut(inode) {
            folder.settle(moment);
        }
    }
}

/// A folder where a rename survives that does not survive in its peer folder.
fn first_half_rename(tree: &Tree, moments: &HashMap<Inode, u64>) -> Option<(Inode, u64)> {
    moments.iter().find_map(|(inode, moment)| {
        let pending = tree.folder(*inode).ok()?.pending().iter();
        let half = pending
            .take_while(|pending| pending.operation < *moment)
            .find(|pending| {
                let peer = pending.peer.and_then(|peer| moments.get(&peer));
                peer.is_some_and(|peer| *peer <= pending.operation)
            })?;
        Some((*inode, half.operation))
    })
}

fn survive(content: DiskFileContent, style: SurvivalStyle, rng: &mut Rng) -> Vec<u8> {
    let between = shortening_moment(&content, rng);
    let part = match rng.u8(..4) {
        0 => 0.0,
        1 | 2 => 1.0,
        _ => rng.f64(),
    };
    let (shortened_until, size, extend) = match style {
        SurvivalStyle::All => (u64::MAX, Size::Between(1.0), false),
        SurvivalStyle::None | SurvivalStyle::Mixed => (0, Size::Between(0.0), false),
        SurvivalStyle::Each(_) => (between, Size::Between(part), rng.bool()),
        SurvivalStyle::Prefix(moment) => (moment, Size::At(moment), false),
        SurvivalStyle::Last(_) => (between, Size::Between(part), true),
        SurvivalStyle::Torn(change, _) => (change.operation, Size::At(change.operation), true),
    };
    let first = content.changes().first();
    let first = first.map_or(0, |change| change.operation);
    content.survive(Survival {
        block: &mut |block, last| style.moment(block, first..=last, rng),
        shortened_until,
        size,
        extend,
    })
}

impl Tear {
    fn keeps(self, change: ContentChange, block: usize, rng: &mut Rng) -> bool {
        change.touches(block)
            && match self {
                Tear::Before(split) => block < split,
                Tear::From(split) => block >= split,
                Tear::Some => rng.bool(),
            }
    }
}

/// A moment between two operations that shortened the file, or after all of them.
fn shortening_moment(content: &DiskFileContent, rng: &mut Rng) -> u64 {
    let shortenings = content.changes().iter().filter(|change| change.shortens());
    let moments: Vec<_> = shortenings.map(|change| change.operation).collect();
    let position = rng.usize(..=moments.len());
    moments.get(position).copied().unwrap_or(u64::MAX)
}

fn probability(rng: &mut Rng) -> f64 {
    match rng.u8(..4) {
        0 => 0.1,
        1 => 0.5,
        2 => 0.9,
        _ => rng.f64(),
    }
}
