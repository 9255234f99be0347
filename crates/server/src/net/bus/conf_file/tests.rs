use super::*;
use crate::net::bus::tests::Directory;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_missing_file_is_empty_and_what_is_saved_is_there_again() {
    let directory = Directory::new();
    let (mut file, content) = ConfFile::open(&directory.conf()).unwrap();
    assert_eq!(content, b"");
    for sync in [false, true] {
        let text = format!("content {sync}");
        file.save(&text, sync).unwrap();
        assert_eq!(std::fs::read_to_string(directory.conf()).unwrap(), text);
    }
    assert_eq!(directory.names(), ["nodes.conf"], "nothing is left over");
    let mode = std::fs::metadata(directory.conf()).unwrap().permissions().mode();
    assert_eq!(mode & 0o007, 0, "not for every user of the machine");
    drop(file);
    assert_eq!(ConfFile::open(&directory.conf()).unwrap().1, b"content true");
}

#[test]
fn a_file_in_use_is_refused_however_often_it_was_replaced() {
    let directory = Directory::new();
    let (mut file, _) = ConfFile::open(&directory.conf()).unwrap();
    for _ in 0..3 {
        let refused = ConfFile::open(&directory.conf()).unwrap_err();
        assert!(matches!(refused, OpenError::Used(_)));
        assert!(refused.to_string().contains("is already used by a different Cluster node"), "{refused}");
        file.save("content", false).unwrap();
    }
    drop(file);
    assert!(ConfFile::open(&directory.conf()).is_ok());
}

#[test]
fn a_failure_names_its_step_and_leaves_the_file_as_it_was() {
    let directory = Directory::new();
    let (mut file, _) = ConfFile::open(&directory.conf()).unwrap();
    file.save("before", true).unwrap();
    // A directory in the place of the temporary file, then one in the place of the file.
    std::fs::create_dir(&file.temporary).unwrap();
    let error = file.save("after", true).unwrap_err().to_string();
    assert_eq!(error, "Could not open temp cluster config file: Is a directory");
    std::fs::remove_dir(&file.temporary).unwrap();
    assert_eq!(std::fs::read_to_string(directory.conf()).unwrap(), "before");
    std::fs::remove_file(directory.conf()).unwrap();
    std::fs::create_dir_all(directory.conf().join("x")).unwrap();
    let error = file.save("after", true).unwrap_err().to_string();
    assert_eq!(error, "Could not rename tmp cluster config file: Is a directory");
    assert_eq!(directory.names(), ["nodes.conf"], "the temporary file is removed");
    std::fs::remove_dir_all(directory.conf()).unwrap();
    file.save("after", true).unwrap();
    assert_eq!(std::fs::read_to_string(directory.conf()).unwrap(), "after");
}

#[test]
fn a_path_that_cannot_be_opened_is_named() {
    let directory = Directory::new();
    let path = directory.0.join("missing/nodes.conf");
    let error = ConfFile::open(&path).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("Can't open {} in order to acquire a lock: No such file or directory", path.display())
    );
    let error = ConfFile::open(&directory.0).unwrap_err().to_string();
    assert!(error.ends_with("Is a directory"), "{error}");
}
