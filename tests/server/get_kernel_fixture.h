// A server in this process and calls of GetKernel.
#pragma once

#include <string>

#include "gtest/gtest.h"
#include "hone/v1/kernel_service.grpc.pb.h"
#include "tests/testing/test_server.h"

namespace hone {

class GetKernelFixture : public ::testing::Test {
 protected:
  // Sends `request`, on top of the template copy with n=1000, unless it says otherwise.
  grpc::Status Get(const std::string& request, v1::GetKernelResponse* response) {
    return Get(*server_.Client(), request, response);
  }
  static grpc::Status Get(v1::KernelService::Stub& client, const std::string& request,
                          v1::GetKernelResponse* response) {
    grpc::ClientContext context;
    v1::GetKernelRequest message = FromText<v1::GetKernelRequest>(
        "template { name: 'copy' } params { key: 'n' value { integer: 1000 } }");
    message.MergeFrom(FromText<v1::GetKernelRequest>(request));
    return client.GetKernel(&context, message, response);
  }
  grpc::Status Error(const std::string& request) {
    v1::GetKernelResponse response;
    return Get(request, &response);
  }

  TestServer server_;
};

}  // namespace hone
