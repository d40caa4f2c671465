import type { Json } from '../recording.js';

/**
 * One text for all that mean the same: keys in order, and without what is empty, which the protocol's JSON may leave out.
 */
export function canonical(value: unknown): string {
  return JSON.stringify(reduced(value)) ?? 'null';
}

function reduced(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => reduced(item) ?? null);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value)
    .map(([key, item]) => [key, reduced(item)] as const)
    .filter(([, item]) => !isEmpty(item))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries);
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  value === false ||
  (Array.isArray(value) && value.length === 0);

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What is at a path of keys, if that is an object. */
export function objectAt(value: unknown, ...path: string[]): Json | undefined {
  let it = value;
  for (const key of path) it = isObject(it) ? it[key] : undefined;
  return isObject(it) ? it : undefined;
}

export const listAt = (value: Json | undefined, key: string): unknown[] => {
  const list = value?.[key];
  return Array.isArray(list) ? list : [];
};

export const textAt = (value: Json | undefined, key: string): string | undefined => {
  const text = value?.[key];
  return typeof text === 'string' ? text : undefined;
};

export const numberAt = (value: Json | undefined, key: string): number | undefined => {
  const number = value?.[key];
  return typeof number === 'number' ? number : undefined;
};
