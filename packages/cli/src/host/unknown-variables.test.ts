import { SETTING_NAMES, settingVariable } from '@trainyard/server';
import { expect, test } from 'vitest';

import { unknownVariables } from './unknown-variables.ts';

const of = (...names: string[]) => unknownVariables(Object.fromEntries(names.map((name) => [name, 'x'])));

test.each([
  ['TRAINYARD_PROT', ' (did you mean TRAINYARD_PORT?)'],
  ['TRAINYARD_MODELS', ' (did you mean TRAINYARD_MODEL?)'],
  ['TRAINYARD_DATADIR', ' (did you mean TRAINYARD_DATA_DIR?)'],
  ['TRAINYARD_PORTS', ' (did you mean TRAINYARD_PORT?)'],
  ['TRAINYARD_QUANTIZATION', ''],
])('%s is reported', (name, hint) => {
  expect(of(name)).toEqual([`unknown setting in the environment: ${name}${hint}`]);
});

test('known variables are not, and neither are those of other programs', () => {
  expect(of(...SETTING_NAMES.map(settingVariable))).toEqual([]);
  expect(of('TRAINYARD_ENGINE_SECRET', 'TRAINYARD_BASE_URL', 'TRAINYARD_STACK', 'TRAINYARD_TEST_MODEL')).toEqual([]);
  expect(of('PATH', 'TRAINYARDS', 'MY_TRAINYARD_PROT')).toEqual([]);
  expect(
    of('TRAINYARD_SERVICE_HOST', 'TRAINYARD_SERVICE_PORT', 'TRAINYARD_SERVICE_PORT_HTTP', 'TRAINYARD_API_SERVICE_PORT'),
  ).toEqual([]);
  expect(of('TRAINYARD_PORT_8420_TCP', 'TRAINYARD_PORT_8420_TCP_ADDR', 'TRAINYARD_GATEWAY_PORT')).toEqual([]);
});
