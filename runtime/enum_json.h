// Choices in files: an enum with names (enum_names.h) as a string of JSON.
#pragma once

#include <string>

#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

// A key that must be there, with one of the enum's names: else the reader's error.
template <NamedEnum E>
E ReadEnum(const JsonReader& reader, const char* key) {
  const std::string& text = reader.String(key);
  for (const EnumName<E>& entry : EnumNames<E>::kTable) {
    if (text == entry.name) return entry.value;
  }
  reader.FailAt(key, Quoted(text), " is not one of ", Join(NamesOf<E>(), ", "), DidYouMean(text, NamesOf<E>()));
}

}  // namespace crosstalk
