//! The fake disk: what is durable, what a cut leaves, faults.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use lsm_tree::{AbstractTree, AnyTree, SequenceNumberCounter};
use steadfast_harness::FakeDisk;

const BLOCK: usize = 512;
const EIO: i32 = 5;

fn sync_folder(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// A file of two durable blocks of `a`.
fn durable_file(disk: &FakeDisk) -> File {
    let path = disk.path().join("file");
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .clone();
    let mut file = options.open(path).unwrap();
    file.write_all(&[b'a'; 2 * BLOCK]).unwrap();
    file.sync_all().unwrap();
    sync_folder(disk.path());
    file
}

fn cut_and_restart(disk: &FakeDisk, seed: u64) {
    disk.cut_now(seed);
    disk.restart();
}

fn error_code<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn behaves_like_an_ordinary_folder() {
    let disk = FakeDisk::mount().unwrap();
    let plain = tempfile::tempdir().unwrap();
    for seed in 0..30 {
        disk.reset();
        let plain = plain.path().join(seed.to_string());
        fs::create_dir(&plain).unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..150 {
            let choice = rng.u64(..);
            let expected = random_operation(&plain, choice);
            let got = random_operation(disk.path(), choice);
            assert_eq!(got, expected, "seed {seed}");
        }
        assert_eq!(snapshot(disk.path()), snapshot(&plain), "seed {seed}");
    }
}

fn random_operation(root: &Path, choice: u64) -> Result<Vec<u8>, ErrorKind> {
    let mut rng = fastrand::Rng::with_seed(choice);
    let names = ["a", "b", "d/a", "d/b", "d", "e", "e/f", "e/f/g"];
    let path = root.join(rng.choice(names).unwrap());
    let other = root.join(rng.choice(names).unwrap());
    let offset = rng.u64(..5000);
    let data = vec![rng.u8(..); rng.usize(..3000)];
    let kind = rng.u8(..10);
    let done = match kind {
        0 => fs::create_dir(&path),
        1 => fs::remove_dir(&path),
        2 => fs::remove_file(&path),
        3 => fs::rename(&path, &other),
        4 => fs::write(&path, &data),
        5 => append(&path, &data),
        6 => OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(offset)),
        7 => OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .and_then(|file| file.write_all_at(&data, offset)),
        8 => File::open(&path).and_then(|file| file.sync_all()),
        _ => return fs::read(&path).map_err(|error| error.kind()),
    };
    done.map(|()| Vec::new()).map_err(|error| error.kind())
}

fn append(path: &Path, data: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(data)
}

fn snapshot(root: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let children = snapshot(&entry.path()).into_iter();
            entries.extend(children.map(|(child, bytes)| (format!("{name}/{child}"), bytes)));
            entries.push((name, None));
        } else {
            entries.push((name, Some(fs::read(entry.path()).unwrap())));
        }
    }
    entries.sort();
    entries
}

#[test]
fn entries_removed_while_listed_hide_no_others() {
    let disk = FakeDisk::mount().unwrap();
    for number in 0..2000 {
        File::create(disk.path().join(format!("a-long-enough-name-{number}"))).unwrap();
    }
    let mut seen = 0;
    for entry in fs::read_dir(disk.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 2000);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn an_open_file_does_not_keep_the_disk() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().to_owned();
    let file = durable_file(&disk);
    drop(disk);
    assert!(!path.exists());
    drop(file);
}

#[test]
fn a_removed_file_stays_readable_while_open() {
    let disk = FakeDisk::mount().unwrap();
    let file = durable_file(&disk);
    fs::remove_file(disk.path().join("file")).unwrap();
    for number in 0..600 {
        let path = disk.path().join(number.to_string());
        File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        sync_folder(disk.path());
    }
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [b'a']);
}

#[test]
fn synced_content_survives_every_cut() {
    let disk = FakeDisk::mount().unwrap();
    for seed in 0..100 {
        disk.reset();
        drop(durable_file(&disk));
        cut_and_restart(&disk, seed);
        let bytes = fs::read(disk.path().join("file")).unwrap();
        assert_eq!(bytes, [b'a'; 2 * BLOCK]);
    }
}

#[test]
fn unsynced_blocks_survive_in_every_combination() {
    let disk = FakeDisk::mount().unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..300 {
        disk.reset();
        let file = durable_file(&disk);
        file.write_all_at(&[b'b'; 3 * BLOCK], 0).unwrap();
        drop(file);
        cut_and_restart(&disk, seed);
        outcomes.insert(block_letters(&disk.path().join("file")));
    }
    // Old, new, torn, reordered, extended without content.
    for expected in ["aa", "bbb", "ba", "ab", "aab", "aa0", "bb"] {
        assert!(outcomes.contains(expected), "no {expected} in {outcomes:?}");
    }
    let sizes: BTreeSet<_> = outcomes.iter().map(String::len).collect();
    assert_eq!(sizes, BTreeSet::from([2, 3]));
}

/// One letter per block; a broken-off last block counts too.
fn block_letters(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let letter = |block: &[u8]| match block[0] {
        0 => '0',
        byte => char::from(byte),
    };
    bytes.chunks(BLOCK).map(letter).collect()
}

#[test]
fn an_earlier_version_of_a_block_may_survive() {
    let disk = FakeDisk::mount().unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        disk.reset();
        let file = durable_file(&disk);
        for letter in [b'b', b'c', b'd'] {
            file.write_all_at(&[letter; BLOCK], 0).unwrap();
        }
        drop(file);
        cut_and_restart(&disk, seed);
        outcomes.insert(block_letters(&disk.path().join("file")));
    }
    let expected = ["aa", "ba", "ca", "da"].map(str::to_owned);
    assert_eq!(outcomes, BTreeSet::from(expected));
}

#[test]
fn shortening_survives_as_a_whole() {
    let disk = FakeDisk::mount().unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        disk.reset();
        let mut file = durable_file(&disk);
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&[b'b'; BLOCK]).unwrap();
        drop(file);
        cut_and_restart(&disk, seed);
        outcomes.insert(block_letters(&disk.path().join("file")));
    }
    let expected = ["", "0", "b", "aa"].map(str::to_owned);
    assert_eq!(outcomes, BTreeSet::from(expected));
}

#[test]
fn entries_need_a_sync_of_their_folder() {
    let disk = FakeDisk::mount().unwrap();
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..60 {
        disk.reset();
        let path = disk.path().join("file");
        File::create(&path).unwrap().sync_all().unwrap();
        cut_and_restart(&disk, seed);
        if path.exists() { kept += 1 } else { lost += 1 }
    }
    assert!(kept > 5 && lost > 5, "{kept} kept, {lost} lost");
}

#[test]
fn entries_follow_a_sync_when_asked() {
    let disk = FakeDisk::mount().unwrap();
    for seed in 0..30 {
        disk.reset();
        disk.set_entries_follow_sync(true);
        let path = disk.path().join("file");
        File::create(&path).unwrap().sync_all().unwrap();
        cut_and_restart(&disk, seed);
        assert!(path.exists());
    }
}

#[test]
fn a_removed_file_may_come_back() {
    let disk = FakeDisk::mount().unwrap();
    let (mut back, mut gone) = (0, 0);
    for seed in 0..60 {
        disk.reset();
        drop(durable_file(&disk));
        let path = disk.path().join("file");
        fs::remove_file(&path).unwrap();
        cut_and_restart(&disk, seed);
        match fs::read(&path) {
            Ok(bytes) => {
                assert_eq!(bytes, [b'a'; 2 * BLOCK]);
                back += 1;
            }
            Err(_) => gone += 1,
        }
    }
    assert!(back > 5 && gone > 5, "{back} back, {gone} gone");
}

#[test]
fn renames_are_atomic() {
    let disk = FakeDisk::mount().unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        disk.reset();
        let (from, to) = (disk.path().join("from"), disk.path().join("to"));
        for (path, text) in [(&from, "new"), (&to, "old")] {
            let mut file = File::create(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.sync_all().unwrap();
        }
        sync_folder(disk.path());
        fs::rename(&from, &to).unwrap();
        cut_and_restart(&disk, seed);
        let text = fs::read_to_string(&to).unwrap();
        assert_eq!(from.exists(), text == "old");
        outcomes.insert(text);
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn a_rename_may_outlive_the_content() {
    let disk = FakeDisk::mount().unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        disk.reset();
        drop(durable_file(&disk));
        let (from, to) = (disk.path().join("new"), disk.path().join("file"));
        fs::write(&from, [b'b'; 2 * BLOCK]).unwrap();
        fs::rename(&from, &to).unwrap();
        cut_and_restart(&disk, seed);
        outcomes.insert(block_letters(&to));
    }
    for expected in ["aa", "bb", ""] {
        assert!(
            outcomes.contains(expected),
            "no {expected:?} in {outcomes:?}"
        );
    }
}

#[test]
fn renames_between_folders_are_atomic() {
    let disk = FakeDisk::mount().unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        disk.reset();
        let folders = ["x", "y"].map(|name| disk.path().join(name));
        folders
            .iter()
            .for_each(|path| fs::create_dir(path).unwrap());
        sync_folder(disk.path());
        let (from, to) = (folders[0].join("file"), folders[1].join("file"));
        File::create(&from).unwrap();
        sync_folder(&folders[0]);
        fs::rename(&from, &to).unwrap();
        if seed % 3 == 0 {
            sync_folder(&folders[seed as usize % 2]);
        }
        cut_and_restart(&disk, seed);
        assert_ne!(from.exists(), to.exists());
        assert!(seed % 3 != 0 || to.exists());
        outcomes.insert(to.exists());
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn rename_without_replacing() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let disk = FakeDisk::mount().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| disk.path().join(name));
    fs::write(&a, "a").unwrap();
    fs::write(&b, "b").unwrap();
    let refused = renameat_with(CWD, &a, CWD, &b, RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(rustix::io::Errno::EXIST));
    renameat_with(CWD, &a, CWD, &c, RenameFlags::NOREPLACE).unwrap();
    renameat_with(CWD, &b, CWD, &c, RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read_to_string(&b).unwrap(), "a");
    assert_eq!(fs::read_to_string(&c).unwrap(), "b");
}

#[test]
fn everything_fails_after_the_armed_operation() {
    let disk = FakeDisk::mount().unwrap();
    let file = durable_file(&disk);
    let before = disk.operations();
    disk.cut_after(2, 7);
    file.write_all_at(b"x", 0).unwrap();
    assert!(!disk.is_cut());
    file.sync_data().unwrap();
    assert!(disk.is_cut());
    assert_eq!(disk.operations(), before + 2);
    let mut byte = [0];
    assert_eq!(error_code(file.write_all_at(b"y", 0)), Some(EIO));
    assert_eq!(error_code(file.read_exact_at(&mut byte, 0)), Some(EIO));
    assert_eq!(error_code(file.sync_all()), Some(EIO));
    assert_eq!(error_code(fs::read_dir(disk.path())), Some(EIO));
    assert_eq!(error_code(File::open(disk.path().join("file"))), Some(EIO));
    disk.restart();
    assert_eq!(error_code(file.read_exact_at(&mut byte, 0)), Some(EIO));
    let bytes = fs::read(disk.path().join("file")).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes.len()), (b'x', b'a', 2 * BLOCK));
}

#[test]
fn the_same_seed_leaves_the_same_image() {
    let disk = FakeDisk::mount().unwrap();
    let run = |seed| {
        disk.reset();
        for choice in 0..200 {
            let _ = random_operation(disk.path(), choice);
        }
        cut_and_restart(&disk, seed);
        snapshot(disk.path())
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
    assert!((1..20).any(|seed| run(seed) != run(0)));
}

#[test]
fn capacity_bounds_all_files() {
    let disk = FakeDisk::mount().unwrap();
    disk.set_capacity(Some(1000));
    let [first, second] = ["first", "second"].map(|name| disk.path().join(name));
    fs::write(&first, [0; 900]).unwrap();
    let full = fs::write(&second, [0; 200]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let file = OpenOptions::new().write(true).open(&second).unwrap();
    let full = file.set_len(101).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 101);
    assert_eq!(allocated, Err(rustix::io::Errno::NOSPC));
    fs::remove_file(&first).unwrap();
    file.set_len(101).unwrap();
    disk.set_capacity(Some(101));
    assert_eq!(
        File::create(&first).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    disk.set_capacity(None);
    File::create(&first).unwrap();
}

#[test]
fn read_only_refuses_changes() {
    let disk = FakeDisk::mount().unwrap();
    let file = durable_file(&disk);
    disk.set_read_only(true);
    let refused = file.write_all_at(b"x", 0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    assert!(File::create(disk.path().join("other")).is_err());
    assert!(fs::remove_file(disk.path().join("file")).is_err());
    assert_eq!(fs::read(disk.path().join("file")).unwrap().len(), 2 * BLOCK);
    disk.set_read_only(false);
    file.write_all_at(b"x", 0).unwrap();
}

#[test]
fn failing_syncs_leave_content_unsynced() {
    let disk = FakeDisk::mount().unwrap();
    let mut lost = 0;
    for seed in 0..40 {
        disk.reset();
        let file = durable_file(&disk);
        let syncs = disk.syncs();
        disk.fail_sync(Some("fil"));
        file.write_all_at(b"x", 0).unwrap();
        assert_eq!(error_code(file.sync_data()), Some(EIO));
        assert_eq!(disk.syncs(), syncs);
        disk.fail_sync(Some("other"));
        sync_folder(disk.path());
        drop(file);
        cut_and_restart(&disk, seed);
        lost += u32::from(fs::read(disk.path().join("file")).unwrap()[0] == b'a');
    }
    assert!(lost > 5);
}

#[test]
fn flipped_bits_are_read_and_stay() {
    let disk = FakeDisk::mount().unwrap();
    let file = durable_file(&disk);
    disk.flip_bit(Path::new("file"), 3).unwrap();
    assert!(disk.flip_bit(Path::new("file"), 2000).is_err());
    assert!(disk.flip_bit(Path::new("none"), 0).is_err());
    let mut byte = [0];
    file.read_exact_at(&mut byte, 3).unwrap();
    assert_eq!(byte, [b'a' ^ 1]);
    drop(file);
    cut_and_restart(&disk, 1);
    assert_eq!(fs::read(disk.path().join("file")).unwrap()[3], b'a' ^ 1);
}

#[test]
fn allocation_extends_or_keeps_the_size() {
    use rustix::fs::{FallocateFlags, fallocate};
    let disk = FakeDisk::mount().unwrap();
    let file = durable_file(&disk);
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 5000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1024);
    fallocate(&file, FallocateFlags::empty(), 0, 4000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 4000);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 10, 10).unwrap();
    let bytes = fs::read(disk.path().join("file")).unwrap();
    assert_eq!(bytes[..30], *b"aaaaaaaaaa\0\0\0\0\0\0\0\0\0\0aaaaaaaaaa");
    assert_eq!(disk.bytes_written(), 1024);
}

#[test]
fn big_writes_arrive_whole() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("big");
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|index| index as u8).collect();
    fs::write(&path, &bytes).unwrap();
    assert!(disk.operations() < 10, "{}", disk.operations());
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

const KEYS: u32 = 400;

/// Opens a tree; its next sequence number follows those of the tables.
fn open_tree(path: &Path) -> lsm_tree::Result<AnyTree> {
    let [next, visible] = [(); 2].map(|()| SequenceNumberCounter::default());
    let tree = lsm_tree::Config::new(path, next.clone(), visible.clone()).open()?;
    if let Some(highest) = tree.get_highest_seqno() {
        next.fetch_max(highest + 1);
        visible.fetch_max(highest + 1);
    }
    Ok(tree)
}

fn key(index: u32) -> Vec<u8> {
    format!("key-{index:06}").into_bytes()
}

/// Writes all keys of one round, overwriting those of the round before.
fn ingest(tree: &AnyTree, round: u32) -> lsm_tree::Result<()> {
    let mut ingestion = tree.ingestion()?;
    for index in 0..KEYS {
        let value = [&round.to_be_bytes()[..], &[index as u8; 100]].concat();
        ingestion.write(key(index), value)?;
    }
    ingestion.finish()?;
    tree.compact(Arc::new(lsm_tree::compaction::Leveled::default()), 0)?;
    Ok(())
}

/// The one round whose values all keys have; None for an empty tree.
fn stored_round(tree: &AnyTree) -> Option<u32> {
    let round = |index| {
        let value = tree.get(key(index), u64::MAX).unwrap()?;
        Some(u32::from_be_bytes(value[..4].try_into().unwrap()))
    };
    let first = round(0);
    (1..KEYS).for_each(|index| assert_eq!(round(index), first, "key {index}"));
    first
}

/// Opens a tree and fills it, round after round, until the power is cut.
fn fill_until_cut(path: &Path, first: u32) -> Option<u32> {
    let tree = open_tree(path).ok()?;
    (first..)
        .take_while(|round| ingest(&tree, *round).is_ok())
        .last()
}

#[test]
fn an_lsm_tree_recovers_from_every_cut() {
    let disk = FakeDisk::mount().unwrap();
    let mut recovered = BTreeSet::new();
    for seed in 0..lsm_seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        disk.reset();
        let path = disk.path().join("tree");
        fs::create_dir(&path).unwrap();
        sync_folder(disk.path());
        let mut stored = None;
        for _ in 0..3 {
            disk.cut_after(rng.u64(1..150), rng.u64(..));
            let next = |round: Option<u32>| round.map_or(0, |round| round + 1);
            let finished = fill_until_cut(&path, next(stored)).or(stored);
            assert!(disk.is_cut(), "seed {seed}");
            disk.restart();
            let tree = open_tree(&path).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            stored = stored_round(&tree);
            assert!(
                stored == finished || stored == Some(next(finished)),
                "seed {seed}: {finished:?} finished, {stored:?} stored"
            );
            recovered.insert((finished, stored));
        }
    }
    assert!(recovered.len() > 10, "{recovered:?}");
}

fn lsm_seeds() -> u64 {
    let seeds = std::env::var("STEADFAST_SEEDS");
    seeds.map_or(50, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_sync_waits_while_syncs_are_held() {
    let disk = FakeDisk::mount().unwrap();
    let file = durable_file(&disk);
    disk.hold_syncs(true);
    let syncs = disk.syncs();
    let waiting = std::thread::Builder::new().spawn(move || file.sync_all());
    let waiting = waiting.unwrap();
    while disk.held_syncs() == 0 {
        std::thread::yield_now();
    }
    assert!(!waiting.is_finished());
    assert_eq!(disk.syncs(), syncs);
    disk.hold_syncs(false);
    waiting.join().unwrap().unwrap();
    assert_eq!(disk.syncs(), syncs + 1);
}
