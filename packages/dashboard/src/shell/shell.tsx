import './shell.css';
import { type ReactNode, useEffect } from 'react';
import type { SessionObject } from '@trainyard/sdk';
import { Link, useLocation } from 'wouter';

import { useServiceEvents, useIsServiceUp } from '../api/events.ts';
import { signOut, useMay } from '../api/session.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { Notice } from '../components/notice.tsx';
import { navLinksOf } from './nav-links.ts';
import { forgetKey, rememberKey } from './last-key.ts';
import { ShellKeys } from './shell-keys.tsx';
import { ThemeButton } from './theme-button.tsx';
import { shownName } from '../components/shown-name.ts';

/** Frame of every page: navigation and the signed-in key. */
export function Shell({
  sessionKey,
  children,
}: {
  sessionKey: NonNullable<SessionObject['key']>;
  children: ReactNode;
}) {
  const [location] = useLocation();
  const links = navLinksOf(sessionKey.scopes);
  // Events are about models and jobs.
  useServiceEvents(useMay('training') ? sessionKey.id : null);
  const isThere = useIsServiceUp();
  useEffect(() => rememberKey(sessionKey), [sessionKey]);
  return (
    <div className="shell">
      <a className="skip-link" href="#main">
        Skip to content
      </a>
      <header className="sidebar">
        <Link href={links[0]?.href ?? '/chat'} className="brand">
          <svg width="20" height="20" viewBox="0 0 16 16" aria-hidden="true">
            <rect width="16" height="16" rx="4" fill="currentColor" />
            <path d="M3.5 11.5 7 7.5l2.2 2 3.3-5" fill="none" stroke="var(--surface)" strokeWidth="1.8" />
          </svg>
          Trainyard
        </Link>
        <nav className="nav" aria-label="Pages">
          <ul>
            {links.map(({ href, text }) => (
              <li key={href}>
                <Link href={href} aria-current={isWithin(location, href) ? 'page' : undefined}>
                  {text}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <div className="sidebar-foot">
          <ShellKeys scopes={sessionKey.scopes} />
          <div className="who">
            Signed in as
            <strong>{shownName(`${sessionKey.entity} · ${sessionKey.name}`)}</strong>
          </div>
          <div>
            <ThemeButton />
            <ActionButton look="quiet" onAct={leave}>
              Sign out
            </ActionButton>
          </div>
        </div>
      </header>
      <div>
        <div className="shell-notice" aria-live="polite">
          {isThere ? null : (
            <Notice tone="warn">The service does not answer. Showing earlier data and retrying.</Notice>
          )}
        </div>
        {children}
      </div>
    </div>
  );
}

async function leave(): Promise<void> {
  // First, because other windows ask for the reason at once.
  forgetKey();
  await signOut();
}

function isWithin(location: string, href: string): boolean {
  return location === href || location.startsWith(`${href}/`);
}
