// Three ways for one thread to answer small requests on many connections, with nothing else in the way: what
// a ring of the kernel could save a server, at most.
//
//   ring_trial epoll|together|staying PORT
//
// epoll: epoll tells who is ready; one recv and one send each, as net::Loop does. together: epoll tells,
// receives and sends of all go to the kernel by io_uring at once. staying: no epoll; receives stay in the
// ring and fill its buffers, sends go at once. Answers every piece that arrives with 4 KB, and never ends.
#include <arpa/inet.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kPiece = 1024;      // bytes of a request
constexpr unsigned kEntries = 1024;  // of the ring, and its buffers
constexpr size_t kMostSockets = 4096;

std::array<std::array<char, kPiece>, kMostSockets> pieces;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

std::string make_answer() {
  return "HTTP/1.1 200 OK\r\nContent-Length: 4096\r\nETag: "
         "\"0123456789abcdef0123456789abcdef\"\r\nAccept-Ranges: bytes\r\n\r\n" +
         std::string(4096, 'x');
}

int listen_on(const char* port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(made, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (listen(made, 512) != 0) fail("listen");
  return made;
}

void tune(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

void watch(int epoll, int socket) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = socket;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) != 0) fail("epoll_ctl");
}

// The sockets that may be read; new connections are watched on the way.
std::vector<int> ready_sockets(int epoll, int listening) {
  static std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
  std::vector<int> ready;
  for (int i = 0; i < count; ++i) {
    const int socket = events[static_cast<size_t>(i)].data.fd;
    if (socket != listening) {
      ready.push_back(socket);
      continue;
    }
    for (int made; (made = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK)) >= 0;) {
      if (static_cast<size_t>(made) >= kMostSockets) fail("too many connections");
      tune(made);
      watch(epoll, made);
    }
  }
  return ready;
}

[[noreturn]] void serve_by_epoll(int listening, const std::string& answer) {
  const int epoll = epoll_create1(0);
  watch(epoll, listening);
  while (true) {
    for (const int socket : ready_sockets(epoll, listening)) {
      const ssize_t got = recv(socket, pieces[0].data(), kPiece, 0);
      if (got == 0) close(socket);
      if (got > 0 && send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) close(socket);
    }
  }
}

io_uring make_ring() {
  io_uring ring;
  io_uring_params params{};
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  if (io_uring_queue_init_params(kEntries, &ring, &params) < 0) fail("io_uring");
  return ring;
}

// Hands over what was prepared, waits for all of it, and gives each result to `take`.
template <typename Take>
void finish(io_uring& ring, unsigned count, const Take& take) {
  io_uring_submit_and_wait(&ring, count);
  unsigned head = 0;
  unsigned seen = 0;
  io_uring_cqe* done = nullptr;
  io_uring_for_each_cqe(&ring, head, done) {
    ++seen;
    take(static_cast<int>(done->user_data), done->res);
  }
  io_uring_cq_advance(&ring, seen);
}

[[noreturn]] void serve_together(int listening, const std::string& answer) {
  const int epoll = epoll_create1(0);
  watch(epoll, listening);
  io_uring ring = make_ring();
  while (true) {
    const std::vector<int> ready = ready_sockets(epoll, listening);
    for (const int socket : ready) {
      io_uring_sqe* const entry = io_uring_get_sqe(&ring);
      io_uring_prep_recv(entry, socket, pieces[static_cast<size_t>(socket)].data(), kPiece, MSG_DONTWAIT);
      io_uring_sqe_set_data64(entry, static_cast<uint64_t>(socket));
    }
    std::vector<int> asked;
    finish(ring, static_cast<unsigned>(ready.size()), [&](int socket, int got) {
      if (got == 0) close(socket);
      if (got > 0) asked.push_back(socket);
    });
    for (const int socket : asked) {
      io_uring_sqe* const entry = io_uring_get_sqe(&ring);
      io_uring_prep_send(entry, socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      io_uring_sqe_set_data64(entry, static_cast<uint64_t>(socket));
    }
    finish(ring, static_cast<unsigned>(asked.size()), [](int, int) {});
  }
}

// The ring, the buffers that it fills, and what is asked of it.
class StayingServer {
 public:
  StayingServer(int listening, std::string answer) : answer_(std::move(answer)), ring_(make_ring()) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 4096, kEntries * sizeof(io_uring_buf)) != 0) fail("memory");
    buffers_ = static_cast<io_uring_buf_ring*>(memory);
    io_uring_buf_ring_init(buffers_);
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<uint64_t>(memory);
    registration.ring_entries = kEntries;
    registration.bgid = 1;
    if (io_uring_register_buf_ring(&ring_, &registration, 0) != 0) fail("buffers of the ring");
    for (unsigned i = 0; i < kEntries; ++i) give_back(i, i);
    io_uring_buf_ring_advance(buffers_, kEntries);
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_multishot_accept(entry, listening, nullptr, nullptr, 0);
    io_uring_sqe_set_data64(entry, kAccept);
  }

  [[noreturn]] void run() {
    while (true) {
      io_uring_submit_and_wait(&ring_, 1);
      unsigned head = 0;
      unsigned seen = 0;
      unsigned used = 0;
      io_uring_cqe* done = nullptr;
      io_uring_for_each_cqe(&ring_, head, done) {
        ++seen;
        take(*done, used);
      }
      io_uring_buf_ring_advance(buffers_, static_cast<int>(used));
      io_uring_cq_advance(&ring_, seen);
    }
  }

 private:
  static constexpr uint64_t kAccept = uint64_t{1} << 32;
  static constexpr uint64_t kSend = uint64_t{2} << 32;

  void give_back(unsigned buffer, unsigned offset) {
    io_uring_buf_ring_add(buffers_, pieces[buffer].data(), kPiece, static_cast<unsigned short>(buffer),
                          io_uring_buf_ring_mask(kEntries), static_cast<int>(offset));
  }

  io_uring_sqe* entry() {
    if (io_uring_sqe* const free = io_uring_get_sqe(&ring_)) return free;
    io_uring_submit(&ring_);
    return io_uring_get_sqe(&ring_);
  }

  void receive(int socket) {
    io_uring_sqe* const staying = entry();
    io_uring_prep_recv_multishot(staying, socket, nullptr, 0, 0);
    staying->flags |= IOSQE_BUFFER_SELECT;
    staying->buf_group = 1;
    io_uring_sqe_set_data64(staying, static_cast<uint64_t>(socket));
  }

  void take(const io_uring_cqe& done, unsigned& used) {
    if (done.user_data == kAccept) {
      if (done.res >= 0) {
        tune(done.res);
        receive(done.res);
      }
      return;
    }
    if (done.user_data >= kSend) return;
    const int socket = static_cast<int>(done.user_data);
    if (done.res == -ENOBUFS) return receive(socket);
    if (done.res <= 0) {
      close(socket);
      return;
    }
    give_back(done.flags >> IORING_CQE_BUFFER_SHIFT, used++);
    if ((done.flags & IORING_CQE_F_MORE) == 0) receive(socket);
    io_uring_sqe* const sending = entry();
    io_uring_prep_send(sending, socket, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    sending->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sending, kSend);
  }

  const std::string answer_;
  io_uring ring_;
  io_uring_buf_ring* buffers_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc == 3 ? argv[1] : "";
  if (way != "epoll" && way != "together" && way != "staying") {
    std::fputs("usage: ring_trial epoll|together|staying PORT\n", stderr);
    return 2;
  }
  const int listening = listen_on(argv[2]);
  if (way == "epoll") serve_by_epoll(listening, make_answer());
  if (way == "together") serve_together(listening, make_answer());
  StayingServer(listening, make_answer()).run();
}
