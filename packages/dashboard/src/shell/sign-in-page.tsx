import './sign-in-page.css';
import '../components/field.css';
import { type FormEvent, useEffect, useState } from 'react';

import { client } from '../api/client.ts';
import { signIn } from '../api/session.ts';
import { Button } from '../components/button.tsx';
import { Command } from '../components/command.tsx';
import { dayOf, timeOfDay } from '../components/days.ts';
import { Fault } from '../components/fault.tsx';
import { Notice } from '../components/notice.tsx';
import { shownName } from '../components/shown-name.ts';
import { lastKey } from './last-key.ts';
import { takeSignInCode } from './sign-in-code.ts';

/** The page for users who are not signed in. A sign-in link signs in by itself; a key can be pasted. */
export function SignInPage() {
  const [key, setKey] = useState('');
  const [isBusy, setIsBusy] = useState(false);
  const [fault, setFault] = useState<unknown>(null);

  async function begin(proof: { key: string } | { code: string }) {
    setIsBusy(true);
    setFault(null);
    try {
      await signIn(proof);
    } catch (error) {
      setFault(error);
      setIsBusy(false);
    }
  }

  useEffect(() => {
    document.title = 'Sign in · Trainyard';
    const code = takeSignInCode();
    if (code !== null) void begin({ code });
  }, []);

  function submit(event: FormEvent) {
    event.preventDefault();
    if (key.trim() !== '') void begin({ key: key.trim() });
  }

  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <div>
          <h1>Trainyard</h1>
          <p>Sign in to see what your models learn.</p>
        </div>
        {fault === null ? <EndedKey /> : <Fault error={fault} />}
        <label>
          API key
          <input
            className="input mono"
            type="password"
            autoComplete="current-password"
            spellCheck={false}
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        </label>
        <Button look="primary" type="submit" isBusy={isBusy}>
          {isBusy ? 'Signing in …' : 'Sign in'}
        </Button>
        <div>
          <p>
            When it started, the service printed a link that signs in. On its machine, the first key is in the file{' '}
            <code>admin-key</code> of the data folder:
          </p>
        </div>
        <Command text="cat .trainyard/admin-key" />
      </form>
    </main>
  );
}

/** Reason that the page is not signed in any more. */
function EndedKey() {
  const [key] = useState(lastKey);
  if (key === null) return null;
  const hasExpired = key.expiresAt !== null && key.expiresAt * 1000 <= client.now();
  return (
    <Notice tone="warn">
      {hasExpired
        ? `The key ${shownName(key.name)} expired on ${dayOf(key.expiresAt)} at ${timeOfDay(key.expiresAt)}. Sign in with another one.`
        : `The session of the key ${shownName(key.name)} has ended: it was signed out in another window, or the key was revoked.`}
    </Notice>
  );
}
