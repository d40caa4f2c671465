import { UnauthenticatedUser, type User } from '@a2a-js/sdk/server';
import { UserBuilder } from '@a2a-js/sdk/server/express';

/** The fields that may hold the name of the user, in this order. */
const NAME_FIELDS = ['userName', 'username', 'sub', 'id', 'email'] as const;

/**
 * The caller as guards and middleware left it in `req.user`, in passport's manner. A user without a name is an error:
 * it must not be taken for an anonymous one, whose tasks all anonymous callers share.
 */
export const userFromRequest: UserBuilder = (req) => {
  const { user } = req as { user?: unknown };
  if (user === undefined || user === null || user === false) return Promise.resolve(new UnauthenticatedUser());
  const fields = typeof user === 'string' ? { userName: user } : (user as Record<string, unknown>);
  return Promise.resolve(fromObject(fields));
};

function fromObject(user: Record<string, unknown>): User {
  if (user.isAuthenticated === false) return new UnauthenticatedUser();
  const name = NAME_FIELDS.map((field) => user[field]).find((value) => value !== undefined && value !== '');
  if (typeof name !== 'string' && typeof name !== 'number') {
    throw new Error(`req.user has none of ${NAME_FIELDS.join(', ')}: give A2AClusterModule a userBuilder.`);
  }
  return named(String(name));
}

const named = (userName: string): User => ({ isAuthenticated: true, userName });
