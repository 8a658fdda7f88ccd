import { NAME_PATTERN } from '@trainyard/protocol/fields';

import { readRole, ROLE_FORM } from '../../../seams/contract/role.ts';
import { URL_FORM, URL_PATTERN, type SettingRow } from '../setting-row.ts';

/** Names without a port, by commas: `api.example,.internal.example,*`. */
const HOST_LIST = /^(?:\*|\.?[\w.:-]+)(?:,(?:\*|\.?[\w.:-]+))*$/;
/** Schemes with their hosts, by commas: `https://app.example,localhost`. */
const ORIGIN_LIST = /^(?:\*|localhost|https?:\/\/[^\s/,]+)(?:,(?:\*|localhost|https?:\/\/[^\s/,]+))*$/;
const ORIGIN_FORM = 'a comma-separated list of origins (https:// or http://, no path), localhost or *';

export const NETWORK = {
  role: {
    kind: 'text',
    isValid: (text) => readRole(text) !== null,
    form: ROLE_FORM,
    default: 'all',
    help: '`all`, or some of `api`, `engine`, `trainer`, comma-separated: `api` = HTTP, `engine` = sampling for API processes, `trainer` = jobs; the processes need a shared database',
    more: 'see [operations](../guide/operations.md#roles)',
  },
  engineUrl: {
    kind: 'text',
    pattern: URL_PATTERN,
    form: URL_FORM,
    defaultText: 'its listen address',
    help: 'URL of this engine for API processes',
    more: 'both need the same secret in `TRAINYARD_ENGINE_SECRET`',
  },
  host: { kind: 'text', default: '127.0.0.1', help: 'address to listen on' },
  port: {
    kind: 'integer',
    min: 0,
    max: 65_535,
    default: 8420,
    help: 'TCP port, 0 = any free one',
  },
  allowNetwork: {
    kind: 'switch',
    default: 'off',
    help: 'allow a listen address that other machines can reach, without TLS',
  },
  allowedHosts: {
    kind: 'text',
    pattern: HOST_LIST,
    form: 'a comma-separated list of names',
    defaultText: 'none',
    help: '`Host` names to accept in addition to those of this machine, comma-separated; `.example.com` = all subdomains, `*` = all',
  },
  allowedOrigins: {
    kind: 'text',
    pattern: ORIGIN_LIST,
    form: ORIGIN_FORM,
    default: 'localhost',
    help: 'origins allowed to read responses (CORS), comma-separated; `localhost` = pages of this machine, `*` = all',
  },
  apiKey: {
    kind: 'text',
    pattern: /^[\x21-\x7e]+$/,
    isSecret: true,
    defaultText: 'generated at the first start',
    help: 'admin key of the service; a new value replaces the old one',
  },
  entity: {
    kind: 'text',
    pattern: new RegExp(NAME_PATTERN, 'u'),
    default: 'local',
    help: 'owner of everything made without an explicit entity',
  },
} as const satisfies Record<string, SettingRow>;
