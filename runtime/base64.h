// Base64 (RFC 4648, section 4): bytes in JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crosstalk {

std::string EncodeBase64(std::string_view bytes);

// Nothing unless EncodeBase64 gives `text` for some bytes: padded, without line ends or other characters.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace crosstalk
