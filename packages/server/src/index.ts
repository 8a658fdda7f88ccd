export type { InferenceBackend, TrainingQueue } from './backends.ts';
export {
  isSwitch,
  kebab,
  resolveConfig,
  SETTING_NAMES,
  type ConfigSources,
  type ServiceConfig,
  type SettingName,
} from './config.ts';
export { createServer } from './create-server.ts';
export { dataPaths, findRunningService } from './data-directory.ts';
export { connectSnippets } from './pages/snippets.ts';
export { SERVICE_VERSION } from './service-version.ts';
export { OfflineKeys } from './offline-keys.ts';
export { ServerError, type ServerErrorCode } from './errors.ts';
export { startService, type RunningService } from './service.ts';
