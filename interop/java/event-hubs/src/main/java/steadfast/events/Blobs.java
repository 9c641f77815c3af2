package steadfast.events;

import com.azure.core.util.BinaryData;
import com.azure.storage.blob.BlobClient;
import com.azure.storage.blob.BlobClientBuilder;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobContainerClientBuilder;
import com.azure.storage.blob.BlobServiceClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.blob.models.BlobErrorCode;
import com.azure.storage.blob.models.BlobHttpHeaders;
import com.azure.storage.blob.models.BlobItem;
import com.azure.storage.blob.models.BlobListDetails;
import com.azure.storage.blob.models.BlobProperties;
import com.azure.storage.blob.models.BlobRange;
import com.azure.storage.blob.models.BlobRequestConditions;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.blob.models.BlockListType;
import com.azure.storage.blob.models.LeaseDurationType;
import com.azure.storage.blob.models.LeaseStateType;
import com.azure.storage.blob.models.LeaseStatusType;
import com.azure.storage.blob.models.ListBlobsOptions;
import com.azure.storage.blob.models.ParallelTransferOptions;
import com.azure.storage.blob.options.BlobParallelUploadOptions;
import com.azure.storage.blob.sas.BlobContainerSasPermission;
import com.azure.storage.blob.sas.BlobSasPermission;
import com.azure.storage.blob.sas.BlobServiceSasSignatureValues;
import com.azure.storage.blob.specialized.BlobLeaseClient;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import com.azure.storage.blob.specialized.BlockBlobClient;
import com.azure.storage.common.sas.AccountSasPermission;
import com.azure.storage.common.sas.AccountSasResourceType;
import com.azure.storage.common.sas.AccountSasService;
import com.azure.storage.common.sas.AccountSasSignatureValues;
import com.azure.storage.common.sas.SasIpRange;
import com.azure.storage.common.sas.SasProtocol;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;

/** What azure-storage-blob does with blobs, and what it must see. */
final class Blobs {
    private static final int MIB = 1 << 20;

    private Blobs() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("blobsWithBodies", Blobs::blobsWithBodies);
        all.put("blobsInBlocks", Blobs::blobsInBlocks);
        all.put("blobsOf256Mebibytes", Blobs::blobsOf256Mebibytes);
        all.put("leasesAndFolders", Blobs::leasesAndFolders);
        all.put("listsAndConditions", Blobs::listsAndConditions);
        all.put("signatures", Blobs::signatures);
        all.put("aBadAccountKey", Blobs::aBadAccountKey);
    }

    /** A container that is not there yet. */
    private static BlobContainerClient unmade(Server server) {
        return new BlobContainerClientBuilder()
            .connectionString(server.blobs())
            .containerName("box-" + UUID.randomUUID())
            .buildClient();
    }

    private static BlobContainerClient box(Server server) {
        BlobContainerClient container = unmade(server);
        container.create();
        return container;
    }

    private static void refused(int status, BlobErrorCode code, Callable<?> call) {
        BlobStorageException found = Check.refused(BlobStorageException.class, call);
        Check.equal(List.of(found.getStatusCode(), found.getErrorCode()), List.of(status, code), "the refusal");
    }

    private static void refused(int status, BlobErrorCode code, Runnable call) {
        refused(status, code, () -> {
            call.run();
            return null;
        });
    }

    private static BinaryData text(String text) {
        return BinaryData.fromString(text);
    }

    private static byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        IntStream.range(0, length).forEach(index -> bytes[index] = (byte) (index * 31 + index / 251));
        return bytes;
    }

    private static byte[] range(BlobClient blob, long offset, long count) {
        var output = new ByteArrayOutputStream();
        blob.downloadStreamWithResponse(output, new BlobRange(offset, count), null, null, false, null, null);
        return output.toByteArray();
    }

    private static void blobsWithBodies(Server server) {
        BlobContainerClient container = unmade(server);
        Check.that(!container.exists(), "it is not there");
        container.create();
        refused(409, BlobErrorCode.CONTAINER_ALREADY_EXISTS, container::create);
        Check.that(!container.createIfNotExists(), "it is there");
        Check.that(container.exists(), "it is there");
        byte[] body = bytes(2 * MIB);
        BlobClient blob = container.getBlobClient("houses/42 ü.json");
        BlobHttpHeaders headers = new BlobHttpHeaders().setContentType("application/json").setContentLanguage("de");
        blob.uploadWithResponse(
            new BlobParallelUploadOptions(BinaryData.fromBytes(body)).setHeaders(headers).setMetadata(Map.of("house", "42")),
            null, null);
        Check.equal(blob.downloadContent().toBytes(), body, "the body");
        Check.equal(range(blob, 300_000, 7), Arrays.copyOfRange(body, 300_000, 300_007), "a range");
        BlobProperties found = blob.getProperties();
        Check.equal(found.getBlobSize(), (long) body.length, "the size");
        Check.equal(found.getMetadata(), Map.of("house", "42"), "the metadata");
        Check.equal(found.getContentType(), "application/json", "the type");
        Check.equal(found.getContentLanguage(), "de", "the language");
        refused(409, BlobErrorCode.BLOB_ALREADY_EXISTS, () -> blob.upload(text("")));
        blob.upload(text("short"), true);
        Check.equal(blob.downloadContent().toString(), "short", "the body");
        blob.getBlockBlobClient().upload(new ByteArrayInputStream(new byte[0]), 0, true);
        Check.equal(blob.downloadContent().toBytes().length, 0, "an empty body");
        blob.delete();
        Check.that(!blob.exists() && !blob.deleteIfExists(), "it is gone");
        refused(404, BlobErrorCode.BLOB_NOT_FOUND, blob::downloadContent);
        byte[] most = bytes(16 * MIB);
        container.getBlobClient("most").upload(BinaryData.fromBytes(most));
        Check.equal(container.getBlobClient("most").downloadContent().toBytes(), most, "the largest");
        container.delete();
        Check.that(!container.exists(), "it is gone");
    }

    private static void blobsInBlocks(Server server) {
        BlobContainerClient container = box(server);
        BlobClient blob = container.getBlobClient("large");
        byte[] body = bytes(20 * MIB + 7);
        ParallelTransferOptions parts = new ParallelTransferOptions()
            .setBlockSizeLong((long) MIB)
            .setMaxSingleUploadSizeLong((long) MIB)
            .setMaxConcurrency(4);
        var upload = new BlobParallelUploadOptions(BinaryData.fromBytes(body)).setParallelTransferOptions(parts);
        blob.uploadWithResponse(upload, null, null);
        Check.equal(blob.downloadContent().toBytes(), body, "the body");
        Check.equal(range(blob, MIB - 3, 6), Arrays.copyOfRange(body, MIB - 3, MIB + 3), "a range over two blocks");
        BlockBlobClient blocks = blob.getBlockBlobClient();
        var lists = blocks.listBlocks(BlockListType.ALL);
        Check.equal(lists.getCommittedBlocks().size(), 21, "blocks");
        List<String> names = new ArrayList<>();
        lists.getCommittedBlocks().forEach(block -> names.add(block.getName()));
        String more = Base64.getEncoder().encodeToString(("more" + " ".repeat(names.get(0).length())).getBytes(StandardCharsets.UTF_8))
            .substring(0, names.get(0).length());
        blocks.stageBlock(more, new ByteArrayInputStream(" and more".getBytes(StandardCharsets.UTF_8)), 9);
        Check.equal(blocks.listBlocks(BlockListType.UNCOMMITTED).getUncommittedBlocks().size(), 1, "waiting blocks");
        names.add(more);
        blocks.commitBlockList(names, true);
        byte[] longer = blob.downloadContent().toBytes();
        Check.equal(longer.length, body.length + 9, "the length");
        Check.equal(new String(longer, body.length, 9, StandardCharsets.UTF_8), " and more", "the end");
        refused(400, BlobErrorCode.INVALID_BLOCK_LIST,
            () -> blocks.commitBlockList(List.of(Base64.getEncoder().encodeToString(new byte[36])), true));
        // The stream of the SDK, which stages blocks as they fill up.
        try (var output = container.getBlobClient("stream").getBlockBlobClient().getBlobOutputStream()) {
            output.write(body);
        } catch (java.io.IOException error) {
            throw new AssertionError(error);
        }
        Check.equal(container.getBlobClient("stream").downloadContent().toBytes(), body, "a stream");
        // One request, larger than what the server holds of a body.
        byte[] large = bytes(40 * MIB);
        container.getBlobClient("whole").upload(BinaryData.fromBytes(large));
        Check.equal(container.getBlobClient("whole").downloadContent().toBytes(), large, "one request");
    }

    /** Whole and in blocks; read whole, by range and by version, and slowly by several at once. */
    private static void blobsOf256Mebibytes(Server server) throws Exception {
        long most = 256L * MIB;
        BlobContainerClient container = box(server);
        for (boolean isWhole : new boolean[] {true, false}) {
            BlobClient blob = container.getBlobClient("whole " + isWhole);
            BlockBlobClient blocks = blob.getBlockBlobClient();
            if (isWhole) {
                blocks.upload(new Pattern(most), most);
            } else {
                ParallelTransferOptions parts = new ParallelTransferOptions()
                    .setBlockSizeLong(4L * MIB)
                    .setMaxSingleUploadSizeLong((long) MIB)
                    .setMaxConcurrency(2);
                blob.uploadWithResponse(new BlobParallelUploadOptions(new Pattern(most)).setParallelTransferOptions(parts),
                    null, null);
            }
            Check.equal(blob.getProperties().getBlobSize(), most, "the length");
            int count = blocks.listBlocks(BlockListType.ALL).getCommittedBlocks().size();
            Check.equal(count, isWhole ? 0 : 64, "the blocks");
            try (InputStream body = blob.openInputStream()) {
                Pattern.check(body, 0, most);
            }
            BlobRequestConditions same = new BlobRequestConditions().setIfMatch(blob.getProperties().getETag());
            for (long start : new long[] {0, 1, (1 << 18) - 3, 4L * MIB - 3, most / 2 + 5, most - 7}) {
                Check.equal(range(blob, start, same), Pattern.part(start, start + 7), "a range");
            }
            slowReaders(blob);
            refused(416, BlobErrorCode.INVALID_RANGE, () -> range(blob, most, same));
            blob.setMetadataWithResponse(Map.of("n", "new"), same, null, null);
            refused(412, BlobErrorCode.CONDITION_NOT_MET, () -> range(blob, 0, same));
            blob.delete();
        }
    }

    /** Seven bytes of this version. */
    private static byte[] range(BlobClient blob, long start, BlobRequestConditions conditions) {
        var output = new ByteArrayOutputStream();
        blob.downloadStreamWithResponse(output, new BlobRange(start, 7L), null, conditions, false, null, null);
        return output.toByteArray();
    }

    /** Readers that ask for all of a blob at once, and take some of it. */
    private static void slowReaders(BlobClient blob) throws IOException {
        var values = new BlobServiceSasSignatureValues(OffsetDateTime.now(ZoneOffset.UTC).plusMinutes(5),
            new BlobSasPermission().setReadPermission(true));
        URL url = new URL(blob.getBlobUrl() + "?" + blob.generateSas(values));
        List<InputStream> readers = new ArrayList<>();
        for (int number = 0; number < 8; number += 1) {
            readers.add(url.openStream());
        }
        for (long at = 0; at < 4L * MIB; at += MIB) {
            for (InputStream reader : readers) {
                Pattern.check(reader, at, MIB);
            }
        }
        for (InputStream reader : readers) {
            reader.close();
        }
    }

    private static void leasesAndFolders(Server server) {
        BlobContainerClient container = box(server);
        List.of("a/1", "a/2", "b", "c/d/1").forEach(name -> container.getBlobClient(name).upload(text("x")));
        List<String> top = container.listBlobsByHierarchy("").stream().map(BlobItem::getName).toList();
        Check.equal(top.stream().sorted().toList(), List.of("a/", "b", "c/"), "the top");
        List<String> below = container.listBlobsByHierarchy("a/").stream().map(BlobItem::getName).toList();
        Check.equal(below, List.of("a/1", "a/2"), "a folder");
        BlobClient blob = container.getBlobClient("b");
        BlobLeaseClient lease = new BlobLeaseClientBuilder().blobClient(blob).buildClient();
        String id = lease.acquireLease(15);
        BlobProperties found = blob.getProperties();
        Check.equal(
            List.of(found.getLeaseState(), found.getLeaseStatus(), found.getLeaseDuration()),
            List.of(LeaseStateType.LEASED, LeaseStatusType.LOCKED, LeaseDurationType.FIXED),
            "the lease");
        BlobLeaseClient other = new BlobLeaseClientBuilder().blobClient(blob).buildClient();
        refused(409, BlobErrorCode.LEASE_ALREADY_PRESENT, () -> other.acquireLease(15));
        refused(412, BlobErrorCode.LEASE_ID_MISSING, () -> blob.setMetadata(Map.of()));
        BlobRequestConditions mine = new BlobRequestConditions().setLeaseId(id);
        blob.setMetadataWithResponse(Map.of("a", "b"), mine, null, null);
        lease.changeLease("c0ffee00-0000-4000-8000-000000000001");
        lease.renewLease();
        BlobLeaseClient former = new BlobLeaseClientBuilder().blobClient(blob).leaseId(id).buildClient();
        refused(409, BlobErrorCode.LEASE_ID_MISMATCH_WITH_LEASE_OPERATION, former::renewLease);
        refused(412, BlobErrorCode.LEASE_ID_MISMATCH_WITH_BLOB_OPERATION,
            () -> blob.setMetadataWithResponse(Map.of(), mine, null, null));
        Check.equal(lease.breakLeaseWithResponse(new com.azure.storage.blob.options.BlobBreakLeaseOptions()
            .setBreakPeriod(java.time.Duration.ZERO), null, null).getValue(), 0, "it breaks at once");
        Check.equal(blob.getProperties().getLeaseState(), LeaseStateType.BROKEN, "it is broken");
        lease.acquireLease(-1);
        Check.equal(blob.getProperties().getLeaseDuration(), LeaseDurationType.INFINITE, "without an end");
        lease.releaseLease();
        blob.delete();
    }

    private static void listsAndConditions(Server server) {
        BlobContainerClient container = box(server);
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < 25; number += 1) {
            String name = String.format("a/%02d", number);
            BlobClient blob = container.getBlobClient(name);
            blob.upload(text("x"));
            blob.setMetadata(Map.of("n", String.valueOf(number)));
            expected.add(name);
        }
        container.getBlobClient("b/ü & <x>").upload(text("x"));
        expected.add("b/ü & <x>");
        List<String> names = new ArrayList<>();
        container.listBlobs(new ListBlobsOptions().setMaxResultsPerPage(10), null).iterableByPage()
            .forEach(page -> {
                Check.that(page.getValue().size() <= 10, page.getValue().size());
                page.getValue().forEach(blob -> names.add(blob.getName()));
            });
        Check.equal(names, expected, "the names");
        ListBlobsOptions some = new ListBlobsOptions()
            .setPrefix("a/1")
            .setDetails(new BlobListDetails().setRetrieveMetadata(true));
        List<String> numbers = container.listBlobs(some, null).stream().map(blob -> blob.getMetadata().get("n")).toList();
        Check.equal(numbers, IntStream.range(10, 20).mapToObj(String::valueOf).toList(), "the metadata");
        BlobClient blob = container.getBlobClient("a/00");
        BlobItem listed = container.listBlobs(new ListBlobsOptions().setPrefix("a/00"), null).iterator().next();
        String tag = blob.getProperties().getETag();
        Check.equal(listed.getProperties().getETag().replace("\"", ""), tag.replace("\"", ""), "the tag");
        BlobRequestConditions same = new BlobRequestConditions().setIfMatch(tag);
        blob.setMetadataWithResponse(Map.of("n", "new"), same, null, null);
        refused(412, BlobErrorCode.CONDITION_NOT_MET,
            () -> blob.setMetadataWithResponse(Map.of(), same, null, null));
        refused(404, BlobErrorCode.BLOB_NOT_FOUND, () -> container.getBlobClient("missing").setMetadata(Map.of()));
    }

    private static void signatures(Server server) {
        BlobContainerClient container = box(server);
        BlobClient blob = container.getBlobClient("a b/ü");
        blob.upload(text("text"));
        OffsetDateTime soon = OffsetDateTime.now(ZoneOffset.UTC).plusMinutes(5);
        BlobSasPermission read = new BlobSasPermission().setReadPermission(true);
        Check.equal(reader(blob, blob.generateSas(values(soon, read))).downloadContent().toString(), "text", "the body");
        BlobServiceSasSignatureValues past = values(soon.minusMinutes(6), read);
        String elsewhere = container.getBlobClient("other").generateSas(values(soon, read));
        for (String bad : List.of(blob.generateSas(past), blob.generateSas(values(soon, read).setStartTime(soon)), elsewhere)) {
            refused(403, BlobErrorCode.AUTHENTICATION_FAILED, () -> reader(blob, bad).downloadContent());
        }
        BlobSasPermission write = new BlobSasPermission().setWritePermission(true);
        for (BlobServiceSasSignatureValues less : List.of(
            values(soon, write),
            values(soon, read).setProtocol(SasProtocol.HTTPS_ONLY),
            values(soon, read).setSasIpRange(SasIpRange.parse("10.0.0.1")))) {
            refused(403, BlobErrorCode.AUTHORIZATION_PERMISSION_MISMATCH,
                () -> reader(blob, blob.generateSas(less)).downloadContent());
        }
        BlobContainerSasPermission whole = new BlobContainerSasPermission()
            .setReadPermission(true).setListPermission(true).setCreatePermission(true);
        String token = container.generateSas(new BlobServiceSasSignatureValues(soon, whole));
        BlobContainerClient listed = new BlobContainerClientBuilder()
            .endpoint(container.getBlobContainerUrl()).sasToken(token).buildClient();
        Check.equal(listed.listBlobs().stream().map(BlobItem::getName).toList(), List.of("a b/ü"), "the names");
        listed.getBlobClient("new").upload(text("1"));
        refused(409, BlobErrorCode.BLOB_ALREADY_EXISTS, () -> listed.getBlobClient("new").upload(text("2"), true));
        BlobServiceClient service = new BlobServiceClientBuilder().connectionString(server.blobs()).buildClient();
        String account = service.generateAccountSas(new AccountSasSignatureValues(
            soon,
            AccountSasPermission.parse("rwdlc"),
            AccountSasService.parse("b"),
            AccountSasResourceType.parse("co")));
        BlobServiceClient other = new BlobServiceClientBuilder()
            .endpoint(server.blobUrl()).sasToken(account).buildClient();
        String name = "second-" + UUID.randomUUID();
        other.createBlobContainer(name).getBlobClient("x").upload(text("y"));
        other.deleteBlobContainer(name);
    }

    private static BlobServiceSasSignatureValues values(OffsetDateTime end, BlobSasPermission permission) {
        return new BlobServiceSasSignatureValues(end, permission);
    }

    private static BlobClient reader(BlobClient blob, String token) {
        return new BlobClientBuilder().endpoint(blob.getBlobUrl()).sasToken(token).buildClient();
    }

    private static void aBadAccountKey(Server server) {
        BlobContainerClient container = new BlobContainerClientBuilder()
            .connectionString(server.blobs("d3Jvbmcga2V5"))
            .containerName("box")
            .buildClient();
        refused(403, BlobErrorCode.AUTHENTICATION_FAILED, container::create);
    }
}
