import { UnauthenticatedUser, type User } from '@a2a-js/sdk/server';
import type { Request } from 'express';
import type { GrpcCall } from 'nestjs-a2a-cluster';

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
  return Promise.resolve(userNamedBy(request.headers.authorization));
}

/** The same over gRPC, from the metadata `authorization`. */
export function grpcBearerUser({ metadata }: GrpcCall): User {
  return userNamedBy(metadata.get('authorization')[0]?.toString());
}

function userNamedBy(authorization = ''): User {
  const name = /^Bearer +(\S.*)$/i.exec(authorization)?.[1]?.trim();
  return name === undefined ? new UnauthenticatedUser() : new BearerUser(name);
}
