import { describe, expect, test } from 'vitest';
import { toolChoiceSchema } from './tool-choice-schema.ts';
import type { ToolDescription } from '../contract/tool-description.ts';

const tool = (name: string, parameters?: Record<string, unknown> | null): ToolDescription => ({
  type: 'function',
  function: { name, ...(parameters === undefined ? {} : { parameters }) },
});
const malformed = (message: RegExp) =>
  expect.objectContaining({ code: 'tokenizer.tools_malformed', message: expect.stringMatching(message) });
const X = { type: 'object', properties: { x: { type: 'integer' } }, required: ['x'] };
const EMPTY = { type: 'object', properties: {} };
const alternative = (name: string, parameters: object) => ({
  type: 'object',
  properties: { name: { type: 'string', enum: [name] }, parameters },
  required: ['name', 'parameters'],
});

describe('required', () => {
  test('a list of calls, one alternative a tool', () => {
    expect(toolChoiceSchema([tool('f', X), tool('g'), tool('h', null)], 'required')).toEqual({
      type: 'array',
      minItems: 1,
      items: { type: 'object', anyOf: [alternative('f', X), alternative('g', EMPTY), alternative('h', EMPTY)] },
    });
  });

  test('one call only, when calls are not to be parallel', () => {
    expect(toolChoiceSchema([tool('f')], 'required', { parallelToolCalls: false })).toMatchObject({
      minItems: 1,
      maxItems: 1,
    });
    expect(toolChoiceSchema([tool('f')], 'required', { parallelToolCalls: true })).not.toHaveProperty('maxItems');
  });

  test('definitions move to the top, where references look for them', () => {
    const city = { type: 'string' };
    const first = { ...X, $defs: { city, day: { type: 'integer' } } };
    const second = {
      ...X,
      $defs: { city: { type: 'string' }, ['__proto__']: { type: 'null' } },
      definitions: { old: city },
    };
    const schema = toolChoiceSchema([tool('f', first), tool('g', second)], 'required');
    expect(schema['$defs']).toEqual(
      JSON.parse('{"city":{"type":"string"},"day":{"type":"integer"},"__proto__":{"type":"null"}}'),
    );
    expect(schema['definitions']).toEqual({ old: city });
    expect(schema['items']).toEqual({ type: 'object', anyOf: [alternative('f', X), alternative('g', X)] });
    expect(first).toHaveProperty('$defs'); // the input is unchanged
  });

  test('references to the root of a schema, or to places in it, follow it', () => {
    const tree = {
      type: 'object',
      properties: {
        children: { type: 'array', items: { $ref: '#' } },
        twin: { $ref: '#/properties/children' },
        id: { $ref: '#/$defs/id' },
      },
      $defs: { id: { type: 'string' } },
    };
    const schema = toolChoiceSchema([tool('f'), tool('tree', tree)], 'required');
    const root = '#/items/anyOf/1/properties/parameters';
    expect(schema).toMatchObject({
      items: {
        anyOf: [
          {},
          {
            properties: {
              parameters: {
                properties: {
                  children: { items: { $ref: root } },
                  twin: { $ref: `${root}/properties/children` },
                  id: { $ref: '#/$defs/id' },
                },
              },
            },
          },
        ],
      },
    });
    // Every reference resolves.
    const at = (pointer: string) =>
      pointer
        .slice(2)
        .split('/')
        .reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], schema);
    expect(at(root)).toHaveProperty('properties.children');
    expect(at(`${root}/properties/children`)).toHaveProperty('type', 'array');
    expect(toolChoiceSchema([tool('tree', tree)], { name: 'tree' })).toEqual(tree);
  });

  test('schemas that are nested too deep', () => {
    let deep: Record<string, unknown> = {};
    for (let depth = 0; depth < 20_000; depth++) deep = { items: deep };
    expect(() => toolChoiceSchema([tool('f', deep)], 'required')).toThrow(/128 levels/);
  });

  test('definitions of one name that differ stay apart', () => {
    const using = (c: object, twin?: object) => ({
      type: 'object',
      properties: { c: { $ref: '#/$defs/c' } },
      $defs: { c, d: { $ref: '#/$defs/c' } },
      ...twin,
    });
    const tools = [
      tool('f', using({ type: 'string' })),
      tool('g', using({ type: 'integer' })),
      tool('h', using({ type: 'string' })),
    ];
    const schema = toolChoiceSchema(tools, 'required');
    expect(schema['$defs']).toEqual({
      c: { type: 'string' },
      d: { $ref: '#/$defs/c' },
      '1.c': { type: 'integer' },
      '1.d': { $ref: '#/$defs/1.c' },
    });
    const own = (reference: string) => ({ type: 'object', properties: { c: { $ref: reference } } });
    expect(schema['items']).toEqual({
      type: 'object',
      anyOf: [
        alternative('f', own('#/$defs/c')),
        alternative('g', own('#/$defs/1.c')),
        alternative('h', own('#/$defs/c')),
      ],
    });
  });

  test('anchors become pointers, and a schema with an $id is no root of its own any more', () => {
    const node = (anchor: string) => ({
      $id: 'https://example.com/node',
      type: 'object',
      properties: { next: { $ref: '#next' }, self: { $ref: '#' } },
      $defs: { x: { $anchor: 'next', type: anchor } },
    });
    const schema = toolChoiceSchema([tool('f', node('string')), tool('g', node('integer'))], 'required');
    const root = (index: number) => `#/items/anyOf/${index}/properties/parameters`;
    const own = (index: number, next: string) => ({
      type: 'object',
      properties: { next: { $ref: next }, self: { $ref: root(index) } },
    });
    expect(schema).toMatchObject({
      items: { anyOf: [alternative('f', own(0, '#/$defs/x')), alternative('g', own(1, '#/$defs/1.x'))] },
      $defs: { x: { type: 'string' }, '1.x': { type: 'integer' } },
    });
    expect(JSON.stringify(schema)).not.toMatch(/\$id|\$anchor/);
  });

  test.each([{ type: 'string' }, { type: ['array', 'null'] }])('parameters of %j are no arguments', (parameters) => {
    for (const choice of ['required', { name: 'f' }] as const)
      expect(() => toolChoiceSchema([tool('f', parameters)], choice)).toThrow(
        malformed(/"f" must be of type "object", got/),
      );
  });

  test.each([{}, { type: ['null', 'object'] }, { anyOf: [{ type: 'object' }, { type: 'string' }] }])(
    'parameters %j are an object',
    (parameters) => {
      expect(toolChoiceSchema([tool('f', parameters)], { name: 'f' })).toEqual({ ...parameters, type: 'object' });
    },
  );

  test('no tools', () => {
    expect(() => toolChoiceSchema([], 'required')).toThrow(malformed(/tools is empty/));
  });
});

describe('a named tool', () => {
  test('its parameters', () => {
    expect(toolChoiceSchema([tool('f'), tool('g', X)], { name: 'g' })).toEqual(X);
    expect(toolChoiceSchema([tool('f')], { name: 'f' })).toEqual(EMPTY);
  });

  test('must be there', () => {
    expect(() => toolChoiceSchema([tool('f'), tool('g')], { name: 'h' })).toThrow(
      malformed(/names "h"; tools has f, g/),
    );
    expect(() => toolChoiceSchema([tool('f')], { name: 'h'.repeat(1e6) })).toThrow(
      malformed(/names "h{999}…; tools has f/),
    );
    expect(() => toolChoiceSchema([], { name: 'h' })).toThrow(malformed(/tools has none/));
  });
});
