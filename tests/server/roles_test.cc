// Who may do what.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "grpcpp/create_channel_posix.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t kStranger = 64321;
constexpr gid_t kAdmins = 64322;

// The status of every method that needs the tuner role, called with requests that would pass.
std::map<std::string, grpc::Status> CallTunerMethods(v1::KernelService::Stub& client) {
  std::map<std::string, grpc::Status> statuses;
  std::string key = "012345";  // the tune's, where there is one
  {
    grpc::ClientContext context;
    v1::CompileResponse response;
    statuses["Compile"] = client.Compile(
        &context,
        FromText<v1::CompileRequest>("source: '__global__ void k() {}' architectures: 'sm_90'"),
        &response);
  }
  {
    grpc::ClientContext context;
    v1::RegisterTemplateRequest request;
    *request.mutable_template_() = CopyTemplate("strangers");
    v1::RegisterTemplateResponse response;
    statuses["RegisterTemplate"] = client.RegisterTemplate(&context, request, &response);
  }
  {
    grpc::ClientContext context;
    auto reader = client.Tune(&context, FromText<v1::TuneRequest>("template { name: 'copy' } "
                                                                  "params { key: 'n' "
                                                                  "value { integer: 16 } }"));
    v1::TuneEvent event;
    while (reader->Read(&event)) {
      if (event.has_started()) key = event.started().key();
    }
    statuses["Tune"] = reader->Finish();
  }
  {
    grpc::ClientContext context;
    v1::RegisterHeaderSetResponse response;
    auto writer = client.RegisterHeaderSet(&context, &response);
    writer->Write(FromText<v1::RegisterHeaderSetRequest>(
        "name: 'set' files { name: 'a.h' content: 'int a;' }"));
    writer->WritesDone();
    statuses["RegisterHeaderSet"] = writer->Finish();
  }
  {
    grpc::ClientContext context;
    v1::PinRequest request;
    request.set_key(key);
    v1::PinResponse response;
    statuses["Pin"] = client.Pin(&context, request, &response);
  }
  {
    grpc::ClientContext context;
    v1::UnpinRequest request;
    request.set_key(key);
    v1::UnpinResponse response;
    statuses["Unpin"] = client.Unpin(&context, request, &response);
  }
  {
    grpc::ClientContext context;
    v1::InvalidateResponse response;
    statuses["Invalidate"] = client.Invalidate(
        &context, FromText<v1::InvalidateRequest>("template_name: 'copy'"), &response);
  }
  return statuses;
}

std::map<std::string, grpc::Status> CallReaderMethods(v1::KernelService::Stub& client) {
  std::map<std::string, grpc::Status> statuses;
  {
    grpc::ClientContext context;
    v1::GetKernelResponse response;
    statuses["GetKernel"] =
        client.GetKernel(&context,
                         FromText<v1::GetKernelRequest>(
                             "template { name: 'copy' } params { key: 'n' value { integer: 16 } }"),
                         &response);
  }
  {
    grpc::ClientContext context;
    v1::ListTemplatesResponse response;
    statuses["ListTemplates"] = client.ListTemplates(&context, {}, &response);
  }
  {
    grpc::ClientContext context;
    v1::ListHeaderSetsResponse response;
    statuses["ListHeaderSets"] = client.ListHeaderSets(&context, {}, &response);
  }
  {
    grpc::ClientContext context;
    v1::ListTuningsResponse response;
    statuses["ListTunings"] = client.ListTunings(&context, {}, &response);
  }
  {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    statuses["GetStatus"] = client.GetStatus(&context, {}, &response);
    EXPECT_EQ(response.caller_role(), "reader");
  }
  return statuses;
}

// In a forked child: becomes `uid`, connects to `path` and passes the connection on. Only calls
// that are safe after a fork of a process with threads.
int ConnectAsAndPass(const char* path, uid_t uid, int channel) {
  if (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0) return 1;
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return 2;
  char byte = 'x';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return sendmsg(channel, &message, 0) == 1 ? 0 : 3;
}

int ReceiveFd(int channel) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  int fd = -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr) std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

// Scenario accept 9: another uid may get and list, but not register, tune or compile raw source.
TEST(RolesTest, AStrangerReadsAndIsToldWhichRoleTheRestNeeds) {
  TestServer server;
  auto client = server.ClientAs({.pid = 1, .uid = kStranger, .gid = kStranger, .groups = {}});
  for (const auto& [method, status] : CallReaderMethods(*client)) {
    EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
  }
  for (const auto& [method, status] : CallTunerMethods(*client)) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
    EXPECT_THAT(status.error_message(),
                AllOf(HasSubstr(method), HasSubstr("role tuner"), HasSubstr("64321")));
  }
  EXPECT_FALSE(server.catalog().Find("strangers", "").ok());
}

TEST(RolesTest, AStrangerMayHaveATunedKernelButNotTheDevicesTime) {
  TestServer server;
  const auto get = [](v1::KernelService::Stub& client) {
    grpc::ClientContext context;
    v1::GetKernelResponse response;
    return client.GetKernel(
        &context,
        FromText<v1::GetKernelRequest>("template { name: 'copy' } policy: WAIT_TUNED "
                                       "params { key: 'n' value { integer: 16 } }"),
        &response);
  };
  auto stranger = server.ClientAs({.pid = 1, .uid = kStranger, .gid = kStranger, .groups = {}});
  const grpc::Status refused = get(*stranger);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("WAIT_TUNED"));
  EXPECT_EQ(server.profiler().begins(), 0);
  EXPECT_TRUE(get(*server.Client()).ok());
  EXPECT_TRUE(get(*stranger).ok()) << "now it is there";
}

TEST(RolesTest, MembersOfTheAdminGroupTune) {
  TestServerOptions options;
  options.roles.admin_group = kAdmins;
  TestServer server(options);
  auto client =
      server.ClientAs({.pid = 1, .uid = kStranger, .gid = kStranger, .groups = {kAdmins}});
  for (const auto& [method, status] : CallTunerMethods(*client)) {
    EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
  }
}

// The daemon's word on who is who comes from the kernel: a real process of another uid.
TEST(RolesTest, AnotherUidsProcessIsAReader) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  TestServer server;
  ASSERT_EQ(chmod(server.socket_path().c_str(), 0666), 0);
  ASSERT_EQ(chmod(DirectoryName(server.socket_path()).c_str(), 0755), 0);
  const std::string path = server.socket_path();
  // gRPC does not survive a fork: the child only connects, and hands its connection back.
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  const pid_t child = fork();
  if (child == 0) _exit(ConnectAsAndPass(path.c_str(), kStranger, ends[1]));
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  ASSERT_EQ(result, 0);
  const int connection = ReceiveFd(ends[0]);
  ASSERT_GE(connection, 0);
  fcntl(connection, F_SETFL, O_NONBLOCK);
  auto client =
      v1::KernelService::NewStub(grpc::CreateInsecureChannelFromFd("unix:test", connection));
  EXPECT_EQ(CallTunerMethods(*client)["Compile"].error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(CallReaderMethods(*client)["ListTemplates"].ok());
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace hone
