use super::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn is_rung(waker: &Waker) -> bool {
    let mut files = [PollFd::new(&waker.file, PollFlags::IN)];
    poll(&mut files, Some(&Timespec::default())).unwrap() > 0
}

fn silence(waker: &Waker) {
    let _ = rustix::io::read(&waker.file, &mut [0; 8]);
}

#[test]
fn what_does_not_fit_follows_in_order() {
    let waker = Arc::new(Waker::new().unwrap());
    let (mut sender, mut receiver) = with_room(4, Arc::clone(&waker));
    (0..10).for_each(|value| sender.send(value));
    sender.announce();
    assert!(sender.is_backed_up());
    let mut received = Vec::new();
    while received.len() < 10 {
        received.extend(std::iter::from_fn(|| receiver.receive()));
        sender.send(10 + received.len());
        sender.announce();
    }
    received.extend(std::iter::from_fn(|| receiver.receive()));
    assert!(received[..10].iter().copied().eq(0..10), "{received:?}");
    assert!(received.is_sorted(), "{received:?}");
}

#[test]
fn the_bell_rings_once_for_one_who_sleeps_and_never_for_one_who_is_up() {
    let waker = Arc::new(Waker::new().unwrap());
    let (mut sender, mut receiver) = queue(Arc::clone(&waker));
    sender.send(1);
    sender.announce();
    assert!(!is_rung(&waker));
    assert!(!waker.may_sleep(|| receiver.is_empty()));
    assert_eq!(receiver.receive(), Some(1));
    assert!(waker.may_sleep(|| receiver.is_empty()));
    sender.announce();
    assert!(!is_rung(&waker), "nothing was sent");
    sender.send(2);
    sender.announce();
    assert!(is_rung(&waker));
    silence(&waker);
    sender.send(3);
    sender.announce();
    assert!(!is_rung(&waker), "it has been woken already");
}

/// Two threads pass a counter back and forth, each asleep while it is the other's turn: a lost wake-up ends in the time
/// limit.
#[test]
fn no_wake_up_is_lost() {
    const TURNS: u32 = 20_000;
    let waker = [Arc::new(Waker::new().unwrap()), Arc::new(Waker::new().unwrap())];
    let (there, here) = (queue(Arc::clone(&waker[1])), queue(Arc::clone(&waker[0])));
    let sides = [(there.0, here.1), (here.0, there.1)];
    let play = |(mut sender, mut receiver): (Sender<u32>, Receiver<u32>), waker: Arc<Waker>, begins: bool| {
        if begins {
            sender.send(0);
            sender.announce();
        }
        loop {
            let Some(turn) = receiver.receive() else {
                if waker.may_sleep(|| receiver.is_empty()) {
                    let mut files = [PollFd::new(&waker.file, PollFlags::IN)];
                    let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
                    assert!(poll(&mut files, Some(&limit)).unwrap() > 0, "a wake-up is lost");
                    silence(&waker);
                    waker.woken();
                }
                continue;
            };
            sender.send(turn + 1);
            sender.announce();
            if turn >= TURNS {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for (index, (side, waker)) in sides.into_iter().zip(waker).enumerate() {
            scope.spawn(move || play(side, waker, index == 0));
        }
    });
}
