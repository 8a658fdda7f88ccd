import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';
import { ApiKeySchema } from './keys.ts';

/** GET, POST and DELETE /v1/session, POST /v1/session-links: identity of a page of the dashboard. */

export const CreateSessionRequestSchema = Type.Object(
  {
    key: Type.Optional(Type.String({ minLength: 1, maxLength: 512, description: 'The secret of a key; or `code`.' })),
    code: Type.Optional(
      Type.String({ minLength: 1, maxLength: 512, description: 'What a sign-in link has behind its `#`; or `key`.' }),
    ),
  },
  { title: 'CreateSessionRequest' },
);
export type CreateSessionRequest = Static<typeof CreateSessionRequestSchema>;

export const SessionSchema = Type.Object(
  {
    object: Type.Literal('session'),
    key: nullable(ApiKeySchema, { description: 'The key whose rights the page has; null: nobody is signed in.' }),
    expires_at: nullable(Type.Integer(), { description: 'Unix seconds; null: nobody is signed in.' }),
  },
  { title: 'Session' },
);
export type SessionObject = Static<typeof SessionSchema>;

export const SessionLinkSchema = Type.Object(
  {
    object: Type.Literal('session_link'),
    path: Type.String({
      description:
        'To be opened in a browser at the address of the service; it works once. The code is behind its `#`.',
    }),
    expires_at: Type.Integer({ description: 'Unix seconds.' }),
  },
  { title: 'SessionLink' },
);
export type SessionLinkObject = Static<typeof SessionLinkSchema>;
