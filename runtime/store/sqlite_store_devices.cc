// What was measured of devices.
#include "runtime/store/sqlite_schema.h"
#include "runtime/store/sqlite_store.h"
#include "runtime/store/stored_rows.h"

namespace hone {

absl::Status SqliteStore::PutCeilings(const DeviceFingerprint& device,
                                      const DeviceCeilings& ceilings) {
  const std::string key = device.Key();
  const std::string record = EncodeCeilings(device, ceilings);
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  HONE_RETURN_IF_ERROR(
      write.database().Run("INSERT OR REPLACE INTO devices VALUES (?1, ?2, ?3, ?4)", key,
                           ceilings.measured_at_unix_ms, record, Seal(key, record)));
  return write.Commit();
}

absl::StatusOr<std::optional<DeviceCeilings>> SqliteStore::GetCeilings(
    const std::string& device_key) {
  std::string record, seal;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query("SELECT record, seal FROM devices WHERE key = ?1", device_key));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return std::nullopt;
    record = query.Text(0);
    seal = query.Text(1);
  }
  if (Seal(device_key, record) != seal) {
    DropRow("DELETE FROM devices WHERE key = ?1", device_key);
    return Damaged("ceilings of device", device_key);
  }
  return DecodeCeilings(record);
}

}  // namespace hone
