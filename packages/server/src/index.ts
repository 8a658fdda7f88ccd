export { ComputeArbiter, type ComputePort, type ComputeSections } from './hosts/computing/compute-arbiter.ts';
export type { InferenceBackend, ModelInference, TrainingQueue } from './seams/contract/backends.ts';
export { resolveConfig, type ServiceConfig } from './service/settings/config.ts';
export type { ConfigSources } from './service/settings/read-settings.ts';
export {
  defaultOf,
  isListSetting,
  SETTING_HEADINGS,
  SETTING_NAMES,
  settingFlag,
  settingRow,
  settingVariable,
  type SettingName,
} from './service/settings/setting-table.ts';
export { multipliesBf16, needsBf16, oneDnnProblem } from './service/settings/bf16-support.ts';
export { createServer } from './gateway/create-server.ts';
export { HubError } from './seams/faults/hub-error.ts';
export { readHubSettings } from './hub/hub-settings.ts';
export { readModelReference } from './hub/model-reference.ts';
export { pullModel } from './hub/pull-model.ts';
export { PullPace } from './hub/pull-pace.ts';
export { readKeyFile } from './seams/data/key-file.ts';
export { dataPaths, findRunningService, refuseUnusableDataDirectory } from './seams/data/data-directory.ts';
export { connectSnippets } from './gateway/pages/snippets.ts';
export { apiDocument } from './gateway/reference-page/api-document.ts';
export { serviceLog } from './service/parts/service-log.ts';
export { SERVICE_VERSION } from './seams/contract/service-version.ts';
export { digestOf, examineDatabase, type Finding, makeFolders, type TableDigest } from '@trainyard/store';
export { examineCluster } from './service/offline/examine-cluster.ts';
export { examineRemoteParts } from './service/offline/examine-remote-parts.ts';
export { exportBase } from './service/offline/export-base.ts';
export { examineModel } from './service/offline/examine-model.ts';
export type { MeasuredStep, MeasuredSteps, PredictedStep } from './service/planning/predict-step.ts';
export { backUpData, moveData, restoreData } from './service/offline/data-moves.ts';
export { listStoredBases, removeStoredBase, type StoredBase } from './service/offline/stored-bases.ts';
export { OfflineKeys } from './service/offline/offline-keys.ts';
export { ServerError, type ServerErrorCode } from './seams/faults/server-error.ts';
export { startParts, type RunningParts } from './service/start-parts.ts';
export { refuseUnstartable } from './service/refuse-unstartable.ts';
export { does, needsModelFiles } from './seams/contract/role.ts';
export { startService, type RunningService, type ServiceExtras } from './service/start-service.ts';
