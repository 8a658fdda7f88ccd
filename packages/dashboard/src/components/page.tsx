import './page.css';
import { type ReactNode, useEffect } from 'react';
import { shownName } from './shown-name.ts';

/** A page: its title, breadcrumbs, actions and content. */
export function Page({
  title,
  subtitle,
  path,
  actions,
  children,
}: {
  title: string;
  subtitle?: string;
  path?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${shownName(title)} · Trainyard`;
  }, [title]);
  return (
    <main className="page" id="main" tabIndex={-1}>
      <header className="page-head">
        <div>
          {path === undefined ? null : <div className="page-path">{path}</div>}
          <h1>
            {shownName(title)}
            {subtitle === undefined ? null : <small>{shownName(subtitle)}</small>}
          </h1>
        </div>
        {actions === undefined ? null : <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </main>
  );
}
