export type Environment = Readonly<Record<string, string | undefined>>;

/** An environment variable that cannot be used. The message is one line: name, value, rule. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The value of a variable; an empty one counts as absent. */
export function read(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === '' ? undefined : value;
}

/** A whole number from 0. @throws {ConfigError} */
export function readInteger(env: Environment, name: string, max = Number.MAX_SAFE_INTEGER): number | undefined {
  const value = read(env, name);
  if (value === undefined) return undefined;
  const number = /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (number <= max) return number;
  throw new ConfigError(`${name} must be a whole number from 0 to ${max}, got ${quote(value)}`);
}

/** A URL of a PostgreSQL database. @throws {ConfigError} which never repeats a password */
export function readDatabaseUrl(env: Environment, name: string): string | undefined {
  const value = read(env, name);
  if (value === undefined) return undefined;
  const protocol = parseUrl(value)?.protocol;
  if (protocol === 'postgres:' || protocol === 'postgresql:') return value;
  // The value may hold a password, so no more than its scheme is repeated.
  const scheme = /^[a-z][\w+.-]*:\/\//i.exec(value)?.[0];
  const got = scheme === undefined ? 'something else' : quote(`${scheme}…`);
  throw new ConfigError(`${name} must be a postgres:// or postgresql:// URL, got ${got}`);
}

/** A URL of an HTTP server, without the slash at its end. @throws {ConfigError} */
export function readHttpUrl(env: Environment, name: string): string | undefined {
  const value = read(env, name);
  if (value === undefined) return undefined;
  const protocol = parseUrl(value)?.protocol;
  if (protocol === 'http:' || protocol === 'https:') return value.replace(/\/+$/, '');
  throw new ConfigError(`${name} must be an http:// or https:// URL, got ${quote(value)}`);
}

export function quote(value: string): string {
  return JSON.stringify(value);
}

function parseUrl(value: string): URL | undefined {
  return URL.canParse(value) ? new URL(value) : undefined;
}
