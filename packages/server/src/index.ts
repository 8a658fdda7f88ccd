export { ComputeArbiter, type ComputePort, type ComputeSections } from './hosts/computing/compute-arbiter.ts';
export type { InferenceBackend, ModelInference, TrainingQueue } from './seams/contract/backends.ts';
export {
  isList,
  isSwitch,
  kebab,
  resolveConfig,
  SETTING_NAMES,
  SETTING_VARIABLES,
  type ConfigSources,
  type ServiceConfig,
  type SettingName,
} from './service/config.ts';
export { multipliesBf16, needsBf16, oneDnnProblem } from './service/bf16-support.ts';
export { createServer } from './gateway/create-server.ts';
export { readKeyFile } from './seams/data/key-file.ts';
export { dataPaths, findRunningService, refuseUnusableDataDirectory } from './seams/data/data-directory.ts';
export { connectSnippets } from './gateway/pages/snippets.ts';
export { apiDocument } from './gateway/reference-page/api-document.ts';
export { serviceLog } from './service/service-log.ts';
export { SERVICE_VERSION } from './seams/contract/service-version.ts';
export { digestOf, examineDatabase, type Finding, makeFolders, type TableDigest } from '@trainyard/store';
export { examineCluster } from './examine-cluster.ts';
export { examineRemoteParts } from './examine-remote-parts.ts';
export { exportBase } from './export-base.ts';
export { examineModel } from './examine-model.ts';
export { backUpData, moveData, restoreData } from './service/data-moves.ts';
export { OfflineKeys } from './service/offline-keys.ts';
export { ServerError, type ServerErrorCode } from './seams/faults/server-error.ts';
export { startParts, type RunningParts } from './start-parts.ts';
export { refuseUnstartable } from './refuse-unstartable.ts';
export { does, needsModelFiles } from './seams/contract/role.ts';
export { startService, type RunningService, type ServiceExtras } from './start-service.ts';
