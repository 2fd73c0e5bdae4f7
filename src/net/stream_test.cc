// A stream on a loop and one that blocks: bytes both ways, what ends a wait, TLS on both sides.
#include "net/stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/testing/temporary_directory.h"
#include "net/join.h"
#include "net/pause.h"
#include "net/testing/run_on.h"

namespace millrace::net {
namespace {

using testing::run_on;

struct Sockets {
  explicit Sockets(int kind) { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | kind, 0, ends), 0); }
  int ends[2] = {-1, -1};
};

std::unique_ptr<Stream> start_stream(Loop& loop, int socket) {
  auto stream = std::make_unique<Stream>(loop, socket);
  EXPECT_TRUE(stream->start());
  return stream;
}

std::string pattern(size_t size) {
  std::string bytes(size, 0);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + i % 23);
  return bytes;
}

Task<Result<std::string>> read_to_end(Stream* stream) {
  std::string all;
  std::vector<std::byte> piece(10'000);
  while (true) {
    auto got = co_await stream->read_some(piece);
    if (!got) co_return got.take_error();
    if (*got == 0) co_return all;
    all.append(reinterpret_cast<const char*>(piece.data()), *got);
  }
}

Task<Result<std::string>> write_and_end(Stream* stream, const std::string* first, const std::string* second) {
  auto written = co_await stream->write_both(*first, *second);
  if (!written) co_return written.take_error();
  co_await stream->end_writing();
  co_return std::string();
}

TEST(StreamTest, CarriesMoreThanTheSocketHolds) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto left = start_stream(loop, sockets.ends[0]);
  const auto right = start_stream(loop, sockets.ends[1]);
  const std::string head = "head";
  const std::string body = pattern(5'000'000);
  std::vector<Task<Result<std::string>>> both;
  both.push_back(write_and_end(left.get(), &head, &body));
  both.push_back(read_to_end(right.get()));
  auto results = run_on(loop, when_all(std::move(both)));
  ASSERT_TRUE(results[0] && results[1]);
  EXPECT_EQ(*results[1], head + body);
  EXPECT_EQ(left->bytes_sent(), head.size() + body.size());
  EXPECT_EQ(right->bytes_received(), head.size() + body.size());
}

TEST(StreamTest, AWaitForBytesEndsAtTheDeadline) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto stream = start_stream(loop, sockets.ends[0]);
  stream->set_deadline(steady_us() + 5'000);
  const auto got = run_on(loop, read_to_end(stream.get()));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_EQ(got.error().message(), "reading: no answer in time");
  ::close(sockets.ends[1]);
}

TEST(StreamTest, AWaitForRoomEndsAfterThePatience) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto stream = start_stream(loop, sockets.ends[0]);
  stream->set_write_patience(5'000);
  const std::string body = pattern(5'000'000);
  const std::string nothing;
  const auto written = run_on(loop, write_and_end(stream.get(), &body, &nothing));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message(), "sending: no answer in time");
  ::close(sockets.ends[1]);
}

Task<Result<std::string>> say_slow_words(Stream* stream, Loop* loop, int words) {
  for (int i = 0; i < words; ++i) {
    const auto slept = co_await sleep_until(*loop, steady_us() + 100'000);
    EXPECT_TRUE(slept);
    auto written = co_await stream->write_all("word");
    if (!written) co_return written.take_error();
  }
  co_await stream->end_writing();
  co_return std::string();
}

TEST(StreamTest, PatienceBeginsAnewWithEachWait) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto stream = start_stream(loop, sockets.ends[0]);
  const auto peer = start_stream(loop, sockets.ends[1]);
  stream->set_read_patience(500'000);
  std::vector<Task<Result<std::string>>> both;
  both.push_back(read_to_end(stream.get()));
  both.push_back(say_slow_words(peer.get(), &loop, 6));
  const uint64_t began = steady_us();
  auto results = run_on(loop, when_all(std::move(both)));
  ASSERT_TRUE(results[0]) << results[0].error().message();
  EXPECT_EQ(results[0]->size(), 24U);
  EXPECT_GT(steady_us() - began, 500'000U) << "longer than the patience of any one wait";
}

TEST(StreamTest, ACancelledScopeEndsTheWaitAndEveryLaterOne) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto stream = start_stream(loop, sockets.ends[0]);
  Cancellation scope;
  stream->attach(&scope);
  loop.post([&] { scope.cancel(); });
  const auto got = run_on(loop, read_to_end(stream.get()));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kCancelled);
  EXPECT_TRUE(stream->is_stale());
  ::close(sockets.ends[1]);
}

// A peer may say that it sends nothing more and read on slowly. Trying again and again would keep the thread.
TEST(StreamTest, AWriterWaitsForAPeerThatStoppedSending) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto stream = start_stream(loop, sockets.ends[0]);
  const std::string body = pattern(5'000'000);
  const std::string nothing;
  ::shutdown(sockets.ends[1], SHUT_WR);
  std::jthread reader;
  const auto read_on = [&] {
    ::fcntl(sockets.ends[1], F_SETFL, 0);
    char bytes[65536];
    while (::recv(sockets.ends[1], bytes, sizeof bytes, 0) > 0) {
    }
    ::close(sockets.ends[1]);
  };
  // The peer reads only when the loop was free to say so.
  loop.post([&] { loop.post([&] { reader = std::jthread(read_on); }); });
  const auto written = run_on(loop, write_and_end(stream.get(), &body, &nothing));
  EXPECT_TRUE(written);
}

Task<Result<std::string>> send_from(Stream* stream, int file, uint64_t offset, uint64_t size) {
  auto sent = co_await stream->send_file(file, offset, size);
  if (!sent) co_return sent.take_error();
  co_await stream->end_writing();
  co_return std::string();
}

TEST(StreamTest, AFileThatIsTooShortIsAnError) {
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(write_file_atomically(directory.path("f"), pattern(1000)));
  const File file = File::open_read(directory.path("f")).take();
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto stream = start_stream(loop, sockets.ends[0]);
  const auto sent = run_on(loop, send_from(stream.get(), file.descriptor(), 500, 501));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kTruncated);
  ::close(sockets.ends[1]);
}

TEST(BlockingStreamTest, RunsInOneCallWithoutALoop) {
  const Sockets sockets(0);
  Stream left(sockets.ends[0], nullptr);
  Stream right(sockets.ends[1], nullptr);
  const std::string body = pattern(3'000'000);
  const std::string nothing;
  std::jthread writer([&] { EXPECT_TRUE(write_and_end(&left, &body, &nothing).run_now()); });
  const auto read = read_to_end(&right).run_now();
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, body);
}

TEST(BlockingStreamTest, PatienceEndsAReadInVain) {
  const Sockets sockets(0);
  Stream left(sockets.ends[0], nullptr);
  left.set_read_patience(5'000);
  const auto read = read_to_end(&left).run_now();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message(), "reading: no answer in time");
  ::close(sockets.ends[1]);
}

TEST(BlockingStreamTest, SendingAFileToAPeerThatIsGoneRaisesNoSignal) {
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(write_file_atomically(directory.path("f"), pattern(1000)));
  const File file = File::open_read(directory.path("f")).take();
  const Sockets sockets(0);
  Stream left(sockets.ends[0], nullptr);
  ::close(sockets.ends[1]);
  const auto sent = send_from(&left, file.descriptor(), 0, 1000).run_now();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kUnavailable);
}

class TlsStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    paths_ = make_self_signed(directory_.path()).take();
    server_tls_ = ServerTls::load(paths_.certificate, paths_.key).take();
  }
  std::shared_ptr<const ClientTls> trusting() const {
    return ClientTls::make(Verify::kPeer, paths_.certificate).take();
  }

  const testing::TemporaryDirectory directory_;
  CertificatePaths paths_;
  std::shared_ptr<const ServerTls> server_tls_;
};

Task<Result<std::string>> serve_file(Stream* stream, std::shared_ptr<const ServerTls> tls, int file,
                                     uint64_t size) {
  auto session = std::make_unique<TlsSession>(std::move(tls));
  auto secured = co_await stream->handshake(std::move(session));
  if (!secured) co_return secured.take_error();
  co_return co_await send_from(stream, file, 0, size);
}

Task<Result<std::string>> read_as_client(Stream* stream, std::shared_ptr<const ClientTls> tls,
                                         std::string host) {
  auto session = std::make_unique<TlsSession>(std::move(tls), host);
  auto secured = co_await stream->handshake(std::move(session));
  if (!secured) co_return secured.take_error();
  co_return co_await read_to_end(stream);
}

TEST_F(TlsStreamTest, BothSidesOfTlsSpeakOverStreams) {
  const std::string body = pattern(3'000'000);
  ASSERT_TRUE(write_file_atomically(directory_.path("f"), body));
  const File file = File::open_read(directory_.path("f")).take();
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto server = start_stream(loop, sockets.ends[0]);
  const auto client = start_stream(loop, sockets.ends[1]);
  std::vector<Task<Result<std::string>>> both;
  both.push_back(serve_file(server.get(), server_tls_, file.descriptor(), body.size()));
  both.push_back(read_as_client(client.get(), trusting(), "localhost"));
  auto results = run_on(loop, when_all(std::move(both)));
  ASSERT_TRUE(results[0]) << results[0].error().message();
  ASSERT_TRUE(results[1]) << results[1].error().message();
  EXPECT_EQ(*results[1], body);
}

TEST_F(TlsStreamTest, ACertificateForAnotherNameIsRefusedWithAReason) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto server = start_stream(loop, sockets.ends[0]);
  const auto client = start_stream(loop, sockets.ends[1]);
  std::vector<Task<Result<std::string>>> both;
  both.push_back(serve_file(server.get(), server_tls_, -1, 0));
  both.push_back(read_as_client(client.get(), trusting(), "other.example"));
  auto results = run_on(loop, when_all(std::move(both)));
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code(), Code::kDenied);
  EXPECT_EQ(results[1].error().message(), "its certificate is for another name than other.example");
}

Task<Result<std::string>> serve_and_drop(std::unique_ptr<Stream>* stream,
                                         std::shared_ptr<const ServerTls> tls) {
  auto session = std::make_unique<TlsSession>(std::move(tls));
  auto secured = co_await (*stream)->handshake(std::move(session));
  if (!secured) co_return secured.take_error();
  auto written = co_await (*stream)->write_all("half of it");
  stream->reset();
  if (!written) co_return written.take_error();
  co_return std::string();
}

TEST_F(TlsStreamTest, AConnectionCutInsideTlsIsNoEnd) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  auto server = start_stream(loop, sockets.ends[0]);
  const auto client = start_stream(loop, sockets.ends[1]);
  std::vector<Task<Result<std::string>>> both;
  both.push_back(serve_and_drop(&server, server_tls_));
  both.push_back(read_as_client(client.get(), trusting(), "localhost"));
  auto results = run_on(loop, when_all(std::move(both)));
  ASSERT_TRUE(results[0]) << results[0].error().message();
  ASSERT_FALSE(results[1]) << "whoever cuts the wire could shorten the answer";
  EXPECT_EQ(results[1].error().code(), Code::kUnavailable);
}

TEST_F(TlsStreamTest, APeerThatClosesInsteadOfAHandshakeIsExplained) {
  Loop loop;
  const Sockets sockets(SOCK_NONBLOCK);
  const auto client = start_stream(loop, sockets.ends[1]);
  ::close(sockets.ends[0]);
  const auto read = run_on(loop, read_as_client(client.get(), trusting(), "localhost"));
  ASSERT_FALSE(read);
  EXPECT_FALSE(read.error().message().empty());
}

}  // namespace
}  // namespace millrace::net
