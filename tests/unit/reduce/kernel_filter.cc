// Lets a test in another language run the kernels: reads elements from standard input, writes results to standard
// output.
//
//   kernel_filter names                          the kernels that this machine runs, one a line
//   kernel_filter KERNEL reduce DTYPE OP INPUTS  input: INPUTS equally long contributions, one after another
//   kernel_filter KERNEL narrow|widen WIRE       input: fp32 numbers, or what they are on that wire
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/unit/reduce/reference.h"

namespace shoal {
namespace {

std::vector<std::byte> ReadAll() {
  std::vector<std::byte> bytes;
  size_t got = 0;
  do {
    bytes.resize(bytes.size() + (1u << 20));
    got = std::fread(bytes.data() + bytes.size() - (1u << 20), 1, 1u << 20, stdin);
    bytes.resize(bytes.size() - (1u << 20) + got);
  } while (got > 0);
  return bytes;
}

std::vector<std::byte> Reduced(const KernelTable& table, const ReduceSpec& spec, size_t input_count) {
  const std::vector<std::byte> bytes = ReadAll();
  const size_t input_bytes = bytes.size() / input_count;
  std::vector<const std::byte*> inputs;
  for (size_t k = 0; k < input_count; ++k) inputs.push_back(bytes.data() + k * input_bytes);
  std::vector<std::byte> output(input_bytes);
  KernelOf(table, spec)(inputs.data(), input_count, output.data(), input_bytes / DataTypeSize(spec.codec.tensor_type()),
                        1.0, 1);
  return output;
}

const ConvertKernels& KernelsOf(const KernelTable& table, WireFormat format) {
  if (format == WireFormat::kInt8) return table.int8_blocks.convert;
  if (format == WireFormat::kFloat8) return table.float8_blocks.convert;
  return format == WireFormat::kFloat16 ? table.float16 : table.bfloat16;
}

std::vector<std::byte> Converted(const KernelTable& table, WireCodec codec, bool narrow) {
  const std::vector<std::byte> bytes = ReadAll();
  uint64_t count = bytes.size() / codec.TensorBytes(1);
  if (!narrow) {
    count = codec.ElementsIn(bytes.size());
    while (codec.WireBytes(count + 1) <= bytes.size()) ++count;
  }
  std::vector<std::byte> output(narrow ? codec.WireBytes(count) : codec.TensorBytes(count));
  const ConvertKernels& kernels = KernelsOf(table, codec.format());
  (narrow ? kernels.narrow : kernels.widen)(bytes.data(), output.data(), count);
  return output;
}

int Run(const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"names"}) {
    for (const KernelTable* table : AllKernels()) std::puts(table->name);
    return 0;
  }
  const KernelTable* table = nullptr;
  for (const KernelTable* candidate : AllKernels()) {
    if (!words.empty() && words[0] == candidate->name) table = candidate;
  }
  if (table == nullptr || words.size() < 3) return 2;
  const std::optional<DataType> type = DataTypeFromName(words[2]);
  const std::optional<WireFormat> wire = WireFormatFromName(words[2]);
  std::vector<std::byte> output;
  if (words[1] == "reduce" && words.size() == 5 && type.has_value() && ReduceOpFromName(words[3]) &&
      std::atoi(words[4].c_str()) > 0) {
    const size_t input_count = static_cast<size_t>(std::atoi(words[4].c_str()));
    output = Reduced(*table, {WireCodec(*type), *ReduceOpFromName(words[3]), 1.0}, input_count);
  } else if ((words[1] == "narrow" || words[1] == "widen") && wire.has_value() && *wire != WireFormat::kAsIs) {
    output = Converted(*table, WireCodec(DataType::kFloat32, *wire), words[1] == "narrow");
  } else {
    return 2;
  }
  return std::fwrite(output.data(), 1, output.size(), stdout) == output.size() ? 0 : 1;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Run({argv + 1, argv + argc}); }
