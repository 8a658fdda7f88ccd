import { didYouMean } from '@trainyard/protocol/fields';
import { SETTING_NAMES, settingVariable } from '@trainyard/server/settings';

const SETTING_VARIABLES = SETTING_NAMES.map(settingVariable);

/**
 * Known variables other than settings: the secret of engines, the address for clients, the switch for stacks,
 * and those of tests.
 */
const OTHERS = /^TRAINYARD_(?:ENGINE_SECRET|BASE_URL|STACK|TEST_\w+)$/;
/** Variables that Kubernetes sets in each container for services named `trainyard…`. */
const OF_KUBERNETES = /_SERVICE_(?:HOST|PORT(?:_\w+)?)$|_PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?$/;

/** A sentence per environment variable that has the name form of a setting but is none. */
export function unknownVariables(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(environment)
    .filter((name) => name.startsWith('TRAINYARD_') && !SETTING_VARIABLES.includes(name))
    .filter((name) => !OTHERS.test(name))
    .filter((name) => !OF_KUBERNETES.test(name) || didYouMean(name, SETTING_VARIABLES) !== '')
    .toSorted()
    .map((name) => `unknown setting in the environment: ${name}${didYouMean(name, SETTING_VARIABLES)}`);
}
