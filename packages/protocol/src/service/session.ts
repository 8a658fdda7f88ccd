import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';
import { ApiKeySchema } from './keys.ts';

/** GET, POST and DELETE /v1/session, POST /v1/session-links: identity of a page of the dashboard. */

export const CreateSessionRequestSchema = Type.Object(
  {
    key: Type.Optional(
      Type.String({ minLength: 1, maxLength: 512, description: 'Secret of a key. Send this or `code`.' }),
    ),
    code: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        description: 'Code after the `#` of a sign-in link. Send this or `key`.',
      }),
    ),
  },
  { title: 'CreateSessionRequest' },
);
export type CreateSessionRequest = Static<typeof CreateSessionRequestSchema>;

export const SessionSchema = Type.Object(
  {
    object: Type.Literal('session'),
    key: nullable(ApiKeySchema, { description: 'Key whose rights the page has; null if no key is signed in.' }),
    expires_at: nullable(Type.Integer(), { description: 'Unix seconds; null if no key is signed in.' }),
  },
  { title: 'Session' },
);
export type SessionObject = Static<typeof SessionSchema>;

export const SessionLinkSchema = Type.Object(
  {
    object: Type.Literal('session_link'),
    path: Type.String({
      description: 'Path to open in a browser at the address of the service. Works once. The code follows the `#`.',
    }),
    expires_at: Type.Integer({ description: 'Unix seconds.' }),
  },
  { title: 'SessionLink' },
);
export type SessionLinkObject = Static<typeof SessionLinkSchema>;
