/**
 * Settings of a process and facts about its data folder, for commands that start no service: loads a tenth of
 * the modules of `@trainyard/server`. `@trainyard/server/settings`.
 */
export { makeFolders } from '@trainyard/store/places';
export { resolveConfig, type ServiceConfig } from './config.ts';
export type { ConfigSources } from './read-settings.ts';
export {
  defaultOf,
  isListSetting,
  SETTING_HEADINGS,
  SETTING_NAMES,
  settingFlag,
  settingRow,
  settingVariable,
  type SettingName,
} from './setting-table.ts';
export { does, needsModelFiles } from '../../seams/contract/role.ts';
export { SERVICE_VERSION } from '../../seams/contract/service-version.ts';
export { dataPaths, findRunningService, refuseUnusableDataDirectory } from '../../seams/data/data-directory.ts';
export { readKeyFile } from '../../seams/data/key-file.ts';
export { ServerError, type ServerErrorCode } from '../../seams/faults/server-error.ts';
