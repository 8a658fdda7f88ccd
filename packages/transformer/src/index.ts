export { UnsupportedModelError } from './contract/errors.ts';

export {
  addsPlainOutputs,
  contextLimit,
  defaultLora,
  layerKind,
  linearDims,
  layersBetween,
  queryWidth,
  linearNames,
  linearsByLayer,
  linearsIn,
  storedLinears,
  type LongRope,
  longRopeMagnitude,
  numRotated,
  periodOf,
  type Yarn,
  yarnMagnitude,
  queryKeyNormWidth,
  readArchitecture,
  TRAINABLE_ARCHITECTURES,
  type Architecture,
  type LayerKind,
  type WindowedLayers,
} from './model/architecture.ts';
export { embeddingScaleOf, FAMILIES } from './model/families.ts';
export {
  addExpertOutputs,
  chooseExperts,
  EXPERT_BIASES,
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  expertDims,
  expertParameters,
  expertShares,
  expertsIn,
  ROUTER_BIAS,
  ROUTER_TENSOR,
  routingParameters,
  scoreGradient,
  slotsByExpert,
  type ExpertMatrix,
  type Experts,
  type ExpertSlots,
} from './model/experts.ts';
export {
  type Convolution,
  CONVOLUTION_TENSOR,
  convolutionParts,
  convolve,
  hasConvolution,
  MAX_CONVOLUTION_SIZE,
} from './model/short-convolution.ts';
export {
  DELTA_TENSORS,
  DeltaHead,
  deltaSizes,
  hasDeltaNet,
  type DeltaNet,
  type DeltaVectors,
  type Taps,
} from './model/gated-delta-net.ts';
export { hasAttention, layerMixer, type LayerMixer } from './model/layer-mixer.ts';
export { normTensorsOf, OUTPUT_BIAS, ROPE_FACTORS, SINKS_TENSOR, type ModelFile } from './model/architecture-limits.ts';
export {
  ALL_LINEAR_NAMES,
  CONVOLUTION_LINEAR_NAMES,
  DEFAULT_LORA_CONFIG,
  DELTA_LINEAR_NAMES,
  FUSED_LINEAR_NAMES,
  LINEAR_NAMES,
  type LinearName,
  type LoraConfig,
  type LoraHalf,
  type ModulePattern,
} from './model/lora-config.ts';
export {
  baseScale,
  graphRank,
  isUniform,
  largestRank,
  modulePath,
  modulePattern,
  moduleShape,
  parentModule,
  scaleOf,
  shapesOf,
  targetModule,
  targetModules,
  type ModuleShape,
  type PatternEntry,
} from './model/lora-modules.ts';
export { numberSetting } from './model/number-setting.ts';
export { GGUF_LINEARS, ggufLinear } from './model/gguf-linears.ts';
export {
  MatrixReader,
  readBlockVectors,
  readExperts,
  readOutputNorm,
  readRopeFactors,
  readWeights,
  readWeightsExceptMatrices,
  streamWeights,
  wideMatrices,
  type BlockVectors,
  type BlockWeights,
  type ExpertBiases,
  type ExpertWeights,
  type ModelWeights,
  type StreamedWeights,
} from './model/weights.ts';
export {
  expandRange,
  expandRows,
  fileMatrices,
  type FileMatrix,
  independentRanges,
  plainFileMatrix,
} from './model/file-matrix.ts';
export {
  adaptedLinears,
  byProjection,
  type ByProjection,
  INPUT_NAMES,
  inputOf,
  INPUTS,
  inputsIn,
  lowWidth,
  outputProjection,
  PROJECTION_NAMES,
  projectionDims,
  projectionParts,
  projectionsIn,
  projectionsOf,
  WideMatrix,
  type InputName,
  type LinearRows,
  type ProjectionName,
} from './model/projections.ts';
export { readAdapterFile, type AdapterWeights, type LinearAdapter } from './model/adapter-file.ts';
export { copyName, copyPaths, stampFileOf, type CopyType } from './files/model-copies.ts';
export { fileDigest } from './files/file-digest.ts';
export {
  checkFiles,
  DamagedFileError,
  fileSums,
  formatFileSums,
  parseFileSums,
  readFileSums,
  requireDigest,
  requireSum,
  SUMS_FILE,
} from './files/file-sums.ts';
export {
  machineMemory,
  memoryProblem,
  parameterCount,
  type WeightsMode,
  weightsModeOf,
  type WeightsSetting,
} from './model/weights-mode.ts';
export { embedTokens, MatrixRows } from './model/embedding.ts';
export { orderValueHeads, toHalves, toInterleaved, valueHeads, type ValueHeads } from './model/head-permutation.ts';
export { ropeTables, type RopeTables } from './model/rope.ts';
export { Scratch, sharedDoubles, sharedFloats, Workspace } from './model/workspace.ts';

export {
  adapterName,
  biasName,
  BlockGraph,
  expertBiasName,
  gradientName,
  inputNormName,
  outputBiasName,
  outputNormName,
  OUTPUT_GATE_NAME,
  queryKeyNormName,
  ROUTER_BIAS_NAME,
  ROUTER_NAME,
  SINKS_NAME,
  sumName,
  type AdapterLayout,
  type ProductLayout,
  weightName,
  type Outputs,
} from './blocks/block-graph.ts';
export { headGraph } from './blocks/head-graph.ts';

export { gradients, topologicalOrder } from './graph/autodiff.ts';
export { compileGraph, type CompiledGraph, type ConstantTensor, type ProductSize } from './graph/compile.ts';
export {
  add,
  broadcast,
  concat,
  constant,
  gatherRows,
  gelu,
  input,
  inverseRms,
  log,
  matmul,
  mul,
  product,
  reduceMax,
  reduceSum,
  reshape,
  rmsNorm,
  rope,
  saved,
  sigmoid,
  silu,
  slice,
  softmax,
  sub,
  transpose,
  type Operation,
  type Shape,
  type Value,
} from './graph/graph.ts';
export {
  encodeOnnxModel,
  type AttributeValue,
  type Dim,
  type ElementType,
  type OnnxConstant,
  type OnnxModel,
  type OnnxNode,
  type OnnxTensorType,
} from './graph/onnx-writer.ts';
export { CutSession, type OutsideProducts } from './graph/cut-session.ts';
export { measureProductRate } from './graph/product-rate.ts';
export {
  float32,
  floats,
  GraphSession,
  int64,
  type SessionOptions,
  type Tensor,
  type Tensors,
} from './graph/session.ts';
