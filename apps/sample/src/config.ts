import { ConfigError, type Environment, read, readDatabaseUrl, readHttpUrl, readInteger } from './environment.js';

/** What the app reads from its environment. */
export interface AppConfig {
  /** DATABASE_URL: a postgres:// or postgresql:// URL. */
  readonly databaseUrl: string;
  /** HOST: the address to listen on; default 127.0.0.1. */
  readonly host: string;
  /** PORT: default 3000. */
  readonly port: number;
  /** PUBLIC_URL: where clients reach all replicas (the load balancer); default: the address this one listens on. */
  readonly publicUrl: string | undefined;
}

/** @throws {ConfigError} for a value of the wrong form, and for a missing DATABASE_URL */
export function readConfig(env: Environment): AppConfig {
  const databaseUrl = readDatabaseUrl(env, 'DATABASE_URL');
  if (databaseUrl === undefined) {
    throw new ConfigError(
      'DATABASE_URL is missing: set it to a URL such as postgres://user:password@127.0.0.1:5432/name',
    );
  }
  return {
    databaseUrl,
    host: read(env, 'HOST') ?? '127.0.0.1',
    port: readInteger(env, 'PORT', 65_535) ?? 3000,
    publicUrl: readHttpUrl(env, 'PUBLIC_URL'),
  };
}
