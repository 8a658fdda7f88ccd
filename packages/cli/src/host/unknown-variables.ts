import { didYouMean } from '@trainyard/protocol/fields';
import { SETTING_NAMES, settingVariable } from '@trainyard/server';

const SETTING_VARIABLES = SETTING_NAMES.map(settingVariable);

/** Known, and no settings of a service: the secret of engines, the address for clients, what shows stacks, and what tests are told by. */
const OTHERS = /^TRAINYARD_(?:ENGINE_SECRET|BASE_URL|STACK|TEST_\w+)$/;
/** Kubernetes tells each container of services that are called `trainyard…` by such variables. */
const OF_KUBERNETES = /_SERVICE_(?:HOST|PORT(?:_\w+)?)$|_PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?$/;

/** A sentence for each variable of the environment that is named as a setting is, and is none. */
export function unknownVariables(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(environment)
    .filter((name) => name.startsWith('TRAINYARD_') && !SETTING_VARIABLES.includes(name))
    .filter((name) => !OTHERS.test(name))
    .filter((name) => !OF_KUBERNETES.test(name) || didYouMean(name, SETTING_VARIABLES) !== '')
    .toSorted()
    .map((name) => `unknown setting in the environment: ${name}${didYouMean(name, SETTING_VARIABLES)}`);
}
