import type { Request } from 'express';
import { bearerUser, grpcBearerUser } from './bearer-user.js';

const callerOf = (authorization?: string) => bearerUser({ headers: { authorization } } as Request);

describe('bearerUser', () => {
  it.each([
    ['Bearer alice', 'alice'],
    ['bearer alice', 'alice'],
    ['Bearer   Alice of Wonderland ', 'Alice of Wonderland'],
  ])('takes %j for a caller who is %s', async (header, name) => {
    expect(await callerOf(header)).toMatchObject({ isAuthenticated: true, userName: name });
  });

  it.each([undefined, '', 'Bearer', 'Bearer  ', 'Basic YWxpY2U6eA==', 'alice'])(
    'takes %j for nobody',
    async (header) => {
      expect(await callerOf(header)).toMatchObject({ isAuthenticated: false });
    },
  );
});

test('grpcBearerUser takes the metadata as bearerUser takes the header', () => {
  const callerOf = (...authorization: string[]) =>
    grpcBearerUser({
      metadata: { get: () => authorization, getMap: () => ({}) },
      getPeer: () => '',
      getPath: () => '',
    });
  expect(callerOf('Bearer alice')).toMatchObject({ isAuthenticated: true, userName: 'alice' });
  expect(callerOf()).toMatchObject({ isAuthenticated: false });
});
