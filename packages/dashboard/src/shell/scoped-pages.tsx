import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';

import { type Scope, useMay } from '../api/session.ts';
import { Empty } from '../components/empty.tsx';
import { Page } from '../components/page.tsx';
import { scopeOfPage } from './nav-links.ts';

/** Shows a page only to a key that may read its data: others would get one error per request. */
export function ScopedPages({ home, children }: { home: string; children: ReactNode }) {
  const [location] = useLocation();
  const scope = scopeOfPage(location);
  return scope === null ? children : <Scoped scope={scope} home={home} children={children} />;
}

function Scoped({ scope, home, children }: { scope: Scope; home: string; children: ReactNode }) {
  if (useMay(scope)) return children;
  return (
    <Page title="Not for this key">
      <Empty title={`This page needs a key with the scope ${scope}`}>
        Sign in with another key, or <Link href={home}>go to your first page</Link>.
      </Empty>
    </Page>
  );
}
