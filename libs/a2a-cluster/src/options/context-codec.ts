import { ServerCallContext, UnauthenticatedUser, type User } from '@a2a-js/sdk/server';

/**
 * Writes the caller of a turn into its lease, and reads it there on the replica that runs the turn again. Give your own
 * (option `contextCodec`) if your executor needs more of the call context than the default keeps.
 */
export interface ContextCodec {
  /**
   * The text that `decode` needs. It is stored in the database, so leave out secrets that the database must not hold.
   */
  encode(context: ServerCallContext): string;
  /**
   * The call context again. Throw if it cannot be rebuilt: the task then ends FAILED, and does not run as somebody
   * else.
   */
  decode(text: string): ServerCallContext;
}

interface StoredContext {
  tenant?: string | undefined;
  user?: { name: string; authenticated: boolean } | undefined;
  version: string;
  extensions?: string[] | undefined;
}

/** Keeps the tenant, the user's name and whether it was authenticated, the protocol version and the extensions. */
export const defaultContextCodec: ContextCodec = {
  encode(context) {
    const { tenant, user, requestedVersion, requestedExtensions } = context;
    const stored: StoredContext = {
      tenant,
      user: user && { name: user.userName, authenticated: user.isAuthenticated },
      version: requestedVersion,
      extensions: requestedExtensions,
    };
    return JSON.stringify(stored);
  },
  decode(text) {
    const { tenant, user, version, extensions } = JSON.parse(text) as StoredContext;
    return new ServerCallContext({
      ...(tenant !== undefined && { tenant }),
      ...(extensions && { requestedExtensions: extensions }),
      requestedVersion: version,
      user: user?.authenticated ? storedUser(user.name) : new UnauthenticatedUser(),
    });
  },
};

const storedUser = (userName: string): User => ({ isAuthenticated: true, userName });
