import type { DataSource, QueryRunner } from 'typeorm';

/** Names tables as the DataSource does: in its schema, with its entityPrefix. */
export function tableNaming({ options }: DataSource): (name: string) => string {
  const { schema } = options as { schema?: string };
  return (name) => `${schema ? `${schema}.` : ''}${options.entityPrefix ?? ''}${name}`;
}

/** A table's path as statements name it. */
export function quoted({ connection }: QueryRunner, path: string): string {
  return path
    .split('.')
    .map((part) => connection.driver.escape(part))
    .join('.');
}
