import { useQuery } from '@tanstack/react-query';
import { Redirect, Route, Switch } from 'wouter';

import { sessionQuery } from './api/session.ts';
import { ComparePage } from './compare/compare-page.tsx';
import { ChatPage } from './chat/chat-page.tsx';
import { ErrorBoundary } from './components/error-boundary.tsx';
import { Fault } from './components/fault.tsx';
import { Page } from './components/page.tsx';
import { ModelPage } from './models/model-page.tsx';
import { ModelsPage } from './models/models-page.tsx';
import { RolloutPage } from './rollouts/rollout-page.tsx';
import { JobPage } from './jobs/job-page.tsx';
import { JobsPage } from './jobs/jobs-page.tsx';
import { KeysPage } from './keys/keys-page.tsx';
import { SystemPage } from './system/system-page.tsx';
import { UsagePage } from './usage/usage-page.tsx';
import { navLinksOf } from './shell/nav-links.ts';
import { ScopedPages } from './shell/scoped-pages.tsx';
import { Shell } from './shell/shell.tsx';
import { SIGN_IN_PATH } from './shell/sign-in-code.ts';
import { SignInPage } from './shell/sign-in-page.tsx';

/** Renders the page of the address for the signed-in key. */
export function App() {
  const { data: session, error } = useQuery(sessionQuery);
  // An opened sign-in link always signs in, even over another session.
  const hasCode = location.pathname === SIGN_IN_PATH && location.hash !== '';
  if (error !== null && session === undefined)
    return (
      <Page title="Trainyard">
        <Fault error={error} />
      </Page>
    );
  if (session === undefined) return null;
  if (session.key === null || hasCode) return <SignInPage />;
  // A key of inference alone lands on the chat.
  const home = navLinksOf(session.key.scopes)[0]?.href ?? '/chat';
  return (
    // A new key for each session drops all state of the previous one.
    <Shell key={session.key.id} sessionKey={session.key}>
      <ErrorBoundary>
        <ScopedPages home={home}>
          <Switch>
            <Route path="/models" component={ModelsPage} />
            <Route path="/compare" component={ComparePage} />
            {/* The router has decoded the address already. */}
            <Route path="/models/:modelId/:tab?">
              {({ modelId, tab }) => <ModelPage key={modelId} modelId={modelId} tab={tab} />}
            </Route>
            <Route path="/rollouts/:rolloutId">{({ rolloutId }) => <RolloutPage rolloutId={rolloutId} />}</Route>
            <Route path="/chat" component={ChatPage} />
            <Route path="/jobs" component={JobsPage} />
            <Route path="/jobs/:jobId">{({ jobId }) => <JobPage key={jobId} jobId={jobId} />}</Route>
            <Route path="/usage" component={UsagePage} />
            <Route path="/keys" component={KeysPage} />
            <Route path="/system" component={SystemPage} />
            <Route path="/">
              <Redirect to={home} replace />
            </Route>
            <Route path={SIGN_IN_PATH}>
              <Redirect to={home} replace />
            </Route>
            <Route>
              <Page title="Page not found">
                <p>
                  No page has this address. <a href={home}>Go to your first page</a>
                </p>
              </Page>
            </Route>
          </Switch>
        </ScopedPages>
      </ErrorBoundary>
    </Shell>
  );
}
