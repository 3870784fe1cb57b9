#include "client/cli/cli.h"

int main(int argc, char** argv) { return hone::cli::Main(argc, argv); }
