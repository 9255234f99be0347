//! What the kernel knows of a socket beyond what has been written to it.

use std::ffi::c_int;

/// Bytes written to the socket `fd` that its peer has not taken yet; 0 where the kernel does not tell. A number that is no
/// socket's any more, or another's by now, gives a wrong count and does no harm.
pub fn undelivered_bytes(fd: i32) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: invariant 2 of `sys`: the call writes one integer of this type, which outlives it, and changes
    // nothing of the socket.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::undelivered_bytes;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn what_the_peer_has_not_taken_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        let fd = socket.as_raw_fd();
        assert_eq!(undelivered_bytes(fd), 0);
        socket.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = socket.write(&[b'x'; 65536]) {
            written += bytes;
        }
        let before = undelivered_bytes(fd);
        assert!(before > 0 && before <= written, "{before} of {written}");
        peer.read_exact(&mut vec![0; written]).unwrap();
        assert!(undelivered_bytes(fd) < before);
        assert_eq!(undelivered_bytes(-1), 0);
    }
}
