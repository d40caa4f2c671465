import type { Request } from 'express';
import { userFromRequest } from './user-builder.js';

const userOf = (user: unknown) => userFromRequest({ user } as unknown as Request);

describe('userFromRequest', () => {
  test.each([undefined, null, false])('takes req.user = %p for an anonymous caller', async (user) => {
    expect((await userOf(user)).isAuthenticated).toBe(false);
  });

  test.each<[string, unknown, string]>([
    ['a text', 'alice', 'alice'],
    ['userName', { userName: 'alice' }, 'alice'],
    ['username, before sub and id', { id: 7, sub: 's', username: 'alice' }, 'alice'],
    ['sub', { sub: 'auth0|1' }, 'auth0|1'],
    ['a numeric id', { id: 7 }, '7'],
    ['the number 0', { id: 0 }, '0'],
    ['email', { email: 'a@example.com' }, 'a@example.com'],
    ['the next where one is empty', { username: '', sub: 's' }, 's'],
    [
      'an instance of a class',
      new (class Account {
        readonly id = 'a1';
      })(),
      'a1',
    ],
  ])('takes %s', async (_what, user, userName) => {
    expect(await userOf(user)).toMatchObject({ isAuthenticated: true, userName });
  });

  test('takes the word of a user who says that he is none', async () => {
    expect((await userOf({ isAuthenticated: false, userName: 'alice' })).isAuthenticated).toBe(false);
  });

  test.each<[string, unknown]>([
    ['no name', { roles: ['admin'] }],
    ['an empty name', { username: '' }],
    ['a name that is an object', { id: { $oid: 'x' } }],
    ['a name that is null', { username: null }],
    ['an empty text', ''],
  ])('refuses a user with %s rather than take him for an anonymous one', async (_what, user) => {
    await expect(async () => userOf(user)).rejects.toThrow(/userBuilder/);
  });
});
