import './menu.css';
import { DropdownMenu } from 'radix-ui';
import type { ReactNode } from 'react';

import { Button, type ButtonLook } from '../button.tsx';
import { shownIfText } from '../shown-name.ts';

/** A button that opens a list of actions: `MenuItem` and `MenuCheck`. */
export function Menu({
  label,
  name = label,
  look = 'plain',
  children,
}: {
  label: string;
  name?: string;
  look?: ButtonLook;
  children: ReactNode;
}) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <Button look={look} aria-label={shownIfText(name)}>
          {label} <span aria-hidden="true">▾</span>
        </Button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4} collisionPadding={8}>
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

export function MenuItem({ children, onSelect }: { children: ReactNode; onSelect: () => void }) {
  return <DropdownMenu.Item onSelect={onSelect}>{children}</DropdownMenu.Item>;
}

/** Loads more choices and keeps the menu open. */
export function MenuMore({ children, onSelect }: { children: ReactNode; onSelect: () => void }) {
  return (
    <DropdownMenu.Item
      onSelect={(event) => {
        event.preventDefault();
        onSelect();
      }}
    >
      {children}
    </DropdownMenu.Item>
  );
}

/** One of several choices; keeps the menu open. */
export function MenuCheck({
  children,
  isChecked,
  isDisabled = false,
  onChange,
}: {
  children: ReactNode;
  isChecked: boolean;
  isDisabled?: boolean;
  onChange: (isChecked: boolean) => void;
}) {
  return (
    <DropdownMenu.CheckboxItem
      checked={isChecked}
      disabled={isDisabled}
      onCheckedChange={onChange}
      onSelect={(event) => event.preventDefault()}
    >
      {children}
    </DropdownMenu.CheckboxItem>
  );
}
