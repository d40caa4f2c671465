import { below } from './transport-paths.js';

describe('below', () => {
  test.each<[string, string, string, string | undefined]>([
    ['/a2a/rest', '', '/a2a/rest', '/'],
    ['/a2a/rest/', '', '/a2a/rest', '/'],
    ['/a2a/rest?x=1', '', '/a2a/rest', '/?x=1'],
    ['/a2a/rest/tasks/1?x=1', '', '/a2a/rest', '/tasks/1?x=1'],
    ['/a2a/restless', '', '/a2a/rest', undefined],
    ['/a2a', '', '/a2a/rest', undefined],
    ['/elsewhere', '', '/a2a/rest', undefined],
    ['/api/a2a/rest/tasks', '/api', '/a2a/rest', '/tasks'],
    ['/a2a/rest/tasks', '/api', '/a2a/rest', '/tasks'],
    ['/A2A/Rest/tasks/Task-1', '', '/a2a/rest', '/tasks/Task-1'],
    ['/other/a2a/rest/tasks', '/api', '/a2a/rest', undefined],
  ])('of %p, prefix %p, path %p is %p', (url, prefix, path, expected) => {
    expect(below(url, prefix, path)).toBe(expected);
  });
});
