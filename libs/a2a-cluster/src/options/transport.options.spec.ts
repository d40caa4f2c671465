import { normalizedPath } from './transport.options.js';

describe('normalizedPath', () => {
  test.each([
    ['', ''],
    ['/', ''],
    ['//', ''],
    ['a2a', '/a2a'],
    ['/a2a/', '/a2a'],
    ['//a2a/rest//', '/a2a/rest'],
  ])('of %p is %p', (path, expected) => {
    expect(normalizedPath(path)).toBe(expected);
  });
});
