#include "server/request_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "runtime/base/error_info.h"
#include "server/call.h"
#include "server/errors.h"

namespace hone {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Protobuf's own limit for nested messages.
constexpr int kDepthMax = 100;

std::string PathTo(const std::string& parent, const FieldDescriptor& field) {
  // The halves of a map entry go by the map's own name.
  if (field.containing_type()->options().map_entry()) return parent;
  return parent.empty() ? field.name() : absl::StrCat(parent, ".", field.name());
}

// Walks the wire format for the text that made parsing fail; OK when it is not the text.
absl::Status FindInvalidText(const Descriptor& type, absl::string_view bytes,
                             const std::string& parent, int depth) {
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  while (const uint32_t tag = input.ReadTag()) {
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const bool delimited =
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (field == nullptr || !delimited) {
      if (!WireFormatLite::SkipField(&input, tag)) return absl::OkStatus();
      continue;
    }
    std::string value;
    uint32_t length = 0;
    if (!input.ReadVarint32(&length) || !input.ReadString(&value, static_cast<int>(length))) {
      return absl::OkStatus();
    }
    const std::string path = PathTo(parent, *field);
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      const size_t at = FindInvalidUtf8(value);
      if (at != absl::string_view::npos) {
        return InvalidField(path, absl::StrCat("byte ", at, " of ", value.size(),
                                               " is not valid UTF-8; text must be UTF-8"));
      }
    } else if (field->type() == FieldDescriptor::TYPE_MESSAGE && depth < kDepthMax) {
      if (absl::Status status = FindInvalidText(*field->message_type(), value, path, depth + 1);
          !status.ok()) {
        return status;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckText(const std::string& text, const std::string& path) {
  const size_t at = text.find('\0');
  if (at == std::string::npos) return absl::OkStatus();
  return InvalidField(path, absl::StrCat("byte ", at, " of ", text.size(),
                                         " is NUL; text must not hold NUL bytes"));
}

absl::Status CheckEnum(int value, const EnumDescriptor& type, const std::string& path) {
  if (type.FindValueByNumber(value) != nullptr) return absl::OkStatus();
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(absl::StrCat(type.value(i)->name(), " (", type.value(i)->number(), ")"));
  }
  return InvalidField(path, absl::StrCat(value, " is not a ", type.name(), "; one of ",
                                         absl::StrJoin(names, ", "), " is"));
}

absl::Status CheckMessage(const Message& message, const std::string& parent);

absl::Status CheckField(const Message& message, const FieldDescriptor& field,
                        const std::string& parent) {
  const Reflection& reflection = *message.GetReflection();
  const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  for (int i = 0; i < count; ++i) {
    std::string path = PathTo(parent, field);
    if (field.is_repeated() && !field.is_map()) absl::StrAppend(&path, "[", i, "]");
    absl::Status status;
    std::string scratch;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        if (field.type() != FieldDescriptor::TYPE_STRING) break;
        status = CheckText(field.is_repeated()
                               ? reflection.GetRepeatedStringReference(message, &field, i, &scratch)
                               : reflection.GetStringReference(message, &field, &scratch),
                           path);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        status = CheckEnum(field.is_repeated() ? reflection.GetRepeatedEnumValue(message, &field, i)
                                               : reflection.GetEnumValue(message, &field),
                           *field.enum_type(), path);
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        status =
            CheckMessage(field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, i)
                                             : reflection.GetMessage(message, &field),
                         path);
        break;
      default:
        break;
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const Message& message, const std::string& parent) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (absl::Status status = CheckField(message, *field, parent); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFields(const Message& message) { return CheckMessage(message, ""); }

absl::Status ParseRequest(const grpc::ByteBuffer& bytes, Message* message) {
  const auto length = static_cast<int64_t>(bytes.Length());
  if (length > kRequestBytesMax) {
    return WithErrorInfo(
        absl::ResourceExhaustedError(
            absl::StrCat(message->GetDescriptor()->name(), " has ", length,
                         " bytes; a message may have at most ", kRequestBytesMax,
                         " (16 MiB). Send large headers as a header set, in several messages")),
        {.reason = "REQUEST_TOO_LARGE", .needed = length, .available = kRequestBytesMax});
  }
  grpc::ByteBuffer copy(bytes);  // shares the slices; parsing consumes it
  if (grpc::GenericDeserialize<grpc::ProtoBufferReader, Message>(&copy, message).ok()) {
    return CheckFields(*message);
  }
  const Descriptor& type = *message->GetDescriptor();
  if (absl::Status status = FindInvalidText(type, FlatBytes(bytes), "", 0); !status.ok()) {
    return status;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the request is not a valid ", type.full_name(), " message"));
}

}  // namespace hone
