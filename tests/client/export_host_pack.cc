// export_host_pack ENDPOINT FILE: as `hone pack export`, with kernels of the CPU reference device.
#include <iostream>

#include "client/cli/pack_export.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: export_host_pack ENDPOINT FILE\n";
    return 64;
  }
  const auto client = hone::Client::Connect({.endpoint = argv[1]});
  const auto exported = client.ok()
                            ? hone::cli::ExportPack(*client, argv[2], {.allow_host_code = true})
                            : absl::StatusOr<hone::v1::PackExport>(client.status());
  if (!exported.ok()) {
    std::cerr << exported.status() << "\n";
    return 1;
  }
  return 0;
}
