#include "crosstalk/runtime/protobuf.h"

namespace crosstalk {
namespace {

std::string Key(uint64_t number, WireType type) { return Varint(number << 3 | type); }

}  // namespace

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string LittleEndian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
  return out;
}

std::string IntField(uint64_t number, uint64_t value) { return Key(number, kVarint) + Varint(value); }

std::string DoubleField(uint64_t number, double value) {
  return Key(number, kFixed64) + LittleEndian(std::bit_cast<uint64_t>(value), 8);
}

std::string FloatField(uint64_t number, float value) { return Fixed32Field(number, std::bit_cast<uint32_t>(value)); }

std::string Fixed32Field(uint64_t number, uint32_t value) { return Key(number, kFixed32) + LittleEndian(value, 4); }

std::string BytesField(uint64_t number, std::string_view bytes) {
  return Key(number, kBytes) + Varint(bytes.size()) + std::string(bytes);
}

std::optional<uint64_t> TakeVarint(std::string_view* rest) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (rest->empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(rest->front());
    if (shift == 63 && byte > 1) return std::nullopt;
    rest->remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

uint64_t ReadLittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  }
  return value;
}

}  // namespace crosstalk
