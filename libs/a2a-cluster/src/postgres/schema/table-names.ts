import type { DataSource, ObjectLiteral, ObjectType } from 'typeorm';

/** The name of an entity's table as it stands in SQL: quoted, with the DataSource's schema and entityPrefix. */
export function sqlName(dataSource: DataSource, entity: ObjectType<ObjectLiteral>): string {
  return dataSource
    .getMetadata(entity)
    .tablePath.split('.')
    .map((part) => dataSource.driver.escape(part))
    .join('.');
}
