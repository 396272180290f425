/* What needs no server: signatures, by the examples that AWS publishes; answers, right and wrong; addresses; keys. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "s3_private.h"
#include "test.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void assert_signature(const struct vv_s3_signing *signing, const char *secret, const char *expected) {
    struct vv_s3_keys keys = {.id = "AKIAIOSFODNN7EXAMPLE"};
    struct vv_s3_text text = {0};
    snprintf(keys.secret, sizeof keys.secret, "%s", secret);
    assert_int_equal(vv_s3_sign(signing, &keys, &text), 0);
    assert_non_null(strstr(text.data, expected));
    vv_s3_text_clear(&text);
}

/* "Signature Calculations for the Authorization Header" of the S3 API reference: the four examples. */
static struct vv_s3_signing example(const char *method, const char *path, const struct vv_s3_pair *query,
                                    size_t queries, const struct vv_s3_pair *headers, size_t count, const char *hash) {
    return (struct vv_s3_signing){.method = method,
                                  .path = path,
                                  .query = query,
                                  .query_count = queries,
                                  .headers = headers,
                                  .header_count = count,
                                  .payload_hash = hash,
                                  .time = "20130524T000000Z",
                                  .region = "us-east-1",
                                  .service = "s3"};
}

#define SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define HOST                                                                                                           \
    { "host", "examplebucket.s3.amazonaws.com" }
#define DATE                                                                                                           \
    { "x-amz-date", "20130524T000000Z" }

static void test_get_object(void **state) {
    (void)state;
    const struct vv_s3_pair headers[] = {DATE, {"range", "bytes=0-9"}, HOST, {"x-amz-content-sha256", EMPTY}};
    struct vv_s3_signing signing = example("GET", "/test.txt", NULL, 0, headers, 4, EMPTY);
    assert_signature(&signing, SECRET,
                     "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                     "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
                     "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void test_put_object(void **state) {
    (void)state;
    char hash[VV_S3_HASH_TEXT];
    vv_s3_hash("Welcome to Amazon S3.", 21, hash);
    assert_string_equal(hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    const struct vv_s3_pair headers[] = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                         HOST,
                                         DATE,
                                         {"x-amz-content-sha256", hash},
                                         {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
    struct vv_s3_signing signing = example("PUT", "/test$file.text", NULL, 0, headers, 5, hash);
    assert_signature(&signing, SECRET, "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void test_get_lifecycle(void **state) {
    (void)state;
    const struct vv_s3_pair headers[] = {HOST, DATE, {"x-amz-content-sha256", EMPTY}}, query[] = {{"lifecycle", ""}};
    struct vv_s3_signing signing = example("GET", "/", query, 1, headers, 3, EMPTY);
    assert_signature(&signing, SECRET, "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

static void test_list_objects(void **state) {
    (void)state;
    const struct vv_s3_pair headers[] = {HOST, DATE, {"x-amz-content-sha256", EMPTY}};
    const struct vv_s3_pair query[] = {{"prefix", "J"}, {"max-keys", "2"}};
    struct vv_s3_signing signing = example("GET", "/", query, 2, headers, 3, EMPTY);
    assert_signature(&signing, SECRET, "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    struct vv_s3_text target = {0};
    vv_s3_target(&signing, &target);
    assert_string_equal(target.data, "/?max-keys=2&prefix=J");
    vv_s3_text_clear(&target);
}

/* The first case of the test suite of Signature Version 4: get-vanilla. */
static void test_get_vanilla(void **state) {
    (void)state;
    const struct vv_s3_pair headers[] = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}};
    struct vv_s3_signing signing = example("GET", "/", NULL, 0, headers, 2, EMPTY);
    signing.time = "20150830T123600Z";
    signing.service = "service";
    assert_signature(&signing, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                     "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

/* ---- answers ---- */

static int join_leaf(void *arg, const char *path, const char *value) {
    struct vv_s3_text *text = arg;
    if (value)
        vv_s3_text_print(text, "%s=%s;", path, value);
    return 0;
}

static void assert_walk(const char *document, const char *expected) {
    struct vv_s3_text text = {0};
    int rc = vv_s3_xml_walk(document, strlen(document), join_leaf, &text);
    assert_int_equal(rc, expected ? 0 : -EPROTO);
    if (expected)
        assert_string_equal(text.data ? text.data : "", expected);
    vv_s3_text_clear(&text);
}

static void test_documents(void **state) {
    (void)state;
    assert_walk("<?xml version=\"1.0\"?>\n<a x='1>' y=\"</a>\"><b>1</b><c/><d><e>2 </e></d></a>\n",
                "a/b=1;a/c=;a/d/e=2 ;");
    assert_walk("\xef\xbb\xbf<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe9;&#x1F600;</a>",
                "a=<>&\"'AB\xc3\xa9\xf0\x9f\x98\x80;");
    assert_walk("<a><!-- <b> --><b >x</b ></a>", "a/b=x;");
    static const char *const wrong[] = {"",
                                        "a",
                                        "<",
                                        "<a",
                                        "<a>",
                                        "<a></b>",
                                        "<a><b></a></b>",
                                        "</a>",
                                        "<a/><b/>",
                                        "<a/>x",
                                        "x<a/>",
                                        "<a>&no;</a>",
                                        "<a>&#0;</a>",
                                        "<a>&#xd800;</a>",
                                        "<a>&#99999999;</a>",
                                        "<a>&#;</a>",
                                        "<a>&#x41</a>",
                                        "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
                                        "<a><![CDATA[x]]></a>",
                                        "<a b='></a>",
                                        "<a <b></b></a>",
                                        "<a><b></b",
                                        "<a$></a$>",
                                        "<!-- <a/>",
                                        "<?xml <a/>",
                                        "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_walk(wrong[i], NULL);
    struct vv_s3_text text = {0};
    assert_int_equal(vv_s3_xml_walk("<a>\0</a>", 8, join_leaf, &text), -EPROTO);
    vv_s3_text_clear(&text);
}

/* ---- addresses ---- */

#define OPTIONS(...) ((const struct varve_backend_option[]){__VA_ARGS__, {NULL, NULL}})
#define NO_OPTION ((const struct varve_backend_option[]){{NULL, NULL}})

static void assert_place(const char *place, const struct varve_backend_option *options, const char *base,
                         const char *prefix, int is_virtual) {
    struct vv_s3_place out;
    struct varve_error error = {0};
    assert_int_equal(vv_s3_place_read(place, options, &out, &error), 0);
    assert_string_equal(out.base, base);
    assert_string_equal(out.prefix, prefix);
    assert_int_equal(out.is_virtual, is_virtual);
}

static void test_places(void **state) {
    (void)state;
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ENDPOINT_URL_S3");
    unsetenv("AWS_DEFAULT_REGION");
    setenv("AWS_REGION", "eu-north-1", 1);
    assert_place("bkt", NO_OPTION, "https://bkt.s3.eu-north-1.amazonaws.com", "", 1);
    assert_place("bkt/a/b/", OPTIONS({"region", "us-east-1"}), "https://bkt.s3.us-east-1.amazonaws.com", "a/b/", 1);
    assert_place("b.k.t/a", NO_OPTION, "https://s3.eu-north-1.amazonaws.com", "a/", 0);
    assert_place("bkt/a", OPTIONS({"endpoint", "http://h:80"}, {"style", "virtual"}), "http://bkt.h", "a/", 1);
    assert_place("bkt/a", OPTIONS({"endpoint", "https://h:8443/"}), "https://h:8443", "a/", 0);
    setenv("AWS_ENDPOINT_URL", "http://[::1]:9000", 1);
    assert_place("bkt", OPTIONS({"timeout", "5s"}, {"patience", "100ms"}, {"writers", "one"}), "http://[::1]:9000", "",
                 0);
    static const struct {
        const char *place, *name, *value;
    } wrong[] = {{"", NULL, NULL},
                 {"ab", NULL, NULL},
                 {"-ab", NULL, NULL},
                 {"a b", NULL, NULL},
                 {"bkt//a", NULL, NULL},
                 {"bkt/../a", NULL, NULL},
                 {"bkt/\x01", NULL, NULL},
                 {"bkt", "endpoint", "h"},
                 {"bkt", "style", "both"},
                 {"bkt", "timeout", "5"},
                 {"bkt", "timeout", NULL},
                 {"bkt", "region", ""},
                 {"bkt", "other", "1"},
                 {"bkt", "writers", "2"},
                 {"bkt", "patience", "0s"},
                 {"bkt", "endpoint", "http://user:pass@h"},
                 {"bkt", "endpoint", "http://h/path"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct vv_s3_place out;
        struct varve_error error = {0};
        assert_int_equal(vv_s3_place_read(wrong[i].place, OPTIONS({wrong[i].name, wrong[i].value}), &out, &error),
                         VARVE_SETTING);
        assert_true(error.text[0]);
    }
    unsetenv("AWS_ENDPOINT_URL");
}

/* ---- keys ---- */

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_keys(void **state) {
    (void)state;
    struct vv_s3_keys keys;
    struct varve_error error = {0};
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
    setenv("AWS_SESSION_TOKEN", "token", 1);
    assert_int_equal(vv_s3_keys_load(&keys, &error), 0);
    assert_string_equal(keys.id, "id");
    assert_string_equal(keys.token, "token");
    vv_s3_keys_clear(&keys);
    setenv("AWS_SECRET_ACCESS_KEY", "hush hush", 1);
    assert_int_equal(vv_s3_keys_load(&keys, &error), VARVE_SETTING);
    assert_null(strstr(error.text, "hush"));
    unsetenv("AWS_SECRET_ACCESS_KEY");
    assert_int_equal(vv_s3_keys_load(&keys, &error), VARVE_SETTING);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SESSION_TOKEN");
    char path[] = "s3-keys-XXXXXX";
    close(mkstemp(path));
    write_file(path,
               "# all\n[default]\naws_access_key_id = one\naws_secret_access_key=s1\naws_session_token =\n\n[ two ]\n"
               "aws_access_key_id=two\n aws_secret_access_key = s2 \naws_session_token=t2\nregion=x\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    assert_int_equal(vv_s3_keys_load(&keys, &error), 0);
    assert_string_equal(keys.id, "one");
    assert_null(keys.token);
    vv_s3_keys_clear(&keys);
    setenv("AWS_PROFILE", "two", 1);
    assert_int_equal(vv_s3_keys_load(&keys, &error), 0);
    assert_string_equal(keys.id, "two");
    assert_string_equal(keys.secret, "s2");
    assert_string_equal(keys.token, "t2");
    vv_s3_keys_clear(&keys);
    setenv("AWS_PROFILE", "three", 1);
    assert_int_equal(vv_s3_keys_load(&keys, &error), VARVE_SETTING);
    unlink(path);
    assert_int_equal(vv_s3_keys_load(&keys, &error), VARVE_SETTING);
    assert_non_null(strstr(error.text, path));
}

/* ---- the number of a writer ---- */

static int refused_with; /* 0: the kernel's answer */

/* Instead of the one of the C library. */
ssize_t getrandom(void *data, size_t size, unsigned flags) {
    if (refused_with == 0)
        return syscall(SYS_getrandom, data, size, flags);
    errno = refused_with;
    refused_with = refused_with == EINTR ? 0 : refused_with;
    return -1;
}

static void test_random_text(void **state) {
    (void)state;
    char text[33], other[33];
    assert_int_equal(vv_s3_random_text(text, sizeof text), 0);
    assert_int_equal(strlen(text), 32);
    refused_with = EINTR; /* once */
    assert_int_equal(vv_s3_random_text(other, sizeof other), 0);
    assert_string_not_equal(text, other);
    refused_with = ENOSYS;
    assert_int_equal(vv_s3_random_text(text, sizeof text), -ENOSYS);
    refused_with = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_object),   cmocka_unit_test(test_put_object),  cmocka_unit_test(test_get_lifecycle),
        cmocka_unit_test(test_list_objects), cmocka_unit_test(test_get_vanilla), cmocka_unit_test(test_documents),
        cmocka_unit_test(test_places),       cmocka_unit_test(test_keys),        cmocka_unit_test(test_random_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
