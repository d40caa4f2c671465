import { UnauthenticatedUser, type User } from '@a2a-js/sdk/server';
import type { Request } from 'express';

/** A caller who said who he is. */
class BearerUser implements User {
  readonly isAuthenticated = true;

  constructor(readonly userName: string) {}
}

/**
 * Takes `Authorization: Bearer NAME` for user NAME, without any proof: a demonstration of how tasks of one user are kept
 * from another, not security. Without the header the caller is anonymous.
 */
export function bearerUser(request: Request): Promise<User> {
  const name = /^Bearer +(\S.*)$/i.exec(request.headers.authorization ?? '')?.[1]?.trim();
  return Promise.resolve(name === undefined ? new UnauthenticatedUser() : new BearerUser(name));
}
