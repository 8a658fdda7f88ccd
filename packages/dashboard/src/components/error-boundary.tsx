import { Component, type ReactNode } from 'react';

import { Fault } from './fault.tsx';
import { Page } from './page.tsx';

/** A page that fails says so, and leaves the navigation as it is. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <Page title="This page failed">
        <Fault error={error} />
        <p>
          <a href="">Load it again</a>
        </p>
      </Page>
    );
  }
}
